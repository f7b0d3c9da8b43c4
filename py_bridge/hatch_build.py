"""Puts the Jac app into the distributions: beside the package in an sdist, inside it in a wheel."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

APP = (
    "contextrender.jac",
    "jac.toml",
    "nodes",
    "views",
    "walkers",
    "graph",
    "engine",
    "evaluation",
)
SUFFIXES = {".jac", ".py", ".toml", ".json", ".npy", ".npz", ".tiktoken", ".typed"}


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Reads the app from the repository, or from the sdist when that is what is built from."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the app's files, unless this is an editable install: that reads the repository."""
        if version == "editable":
            return
        here = Path(self.root)
        source = here / "app" if (here / "app").is_dir() else here.parent
        target = "app" if self.target_name == "sdist" else "contextrender_bridge/app"
        for name in APP:
            root = source / name
            for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
                if path.suffix in SUFFIXES and path.is_file():
                    build_data["force_include"][str(path)] = (
                        f"{target}/{path.relative_to(source).as_posix()}"
                    )
