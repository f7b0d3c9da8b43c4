"""Puts the Jac app into the distributions: beside the package in an sdist, inside it in a wheel."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

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
README = "README.md"
SUFFIXES = {".jac", ".py", ".toml", ".json", ".npy", ".npz", ".tiktoken", ".typed"}


class CustomMetadataHook(MetadataHookInterface):
    """The distribution's description is the repository's README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Reads it."""
        text = (_source(Path(self.root)) / README).read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Reads the app from the repository, or from the sdist when that is what is built from."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the app's files, unless this is an editable install: that reads the repository."""
        if version == "editable":
            return
        source = _source(Path(self.root))
        target = "app" if self.target_name == "sdist" else "contextrender_bridge/app"
        if self.target_name == "sdist":
            build_data["force_include"][str(source / README)] = f"{target}/{README}"
        for name in APP:
            root = source / name
            for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
                if path.suffix in SUFFIXES and path.is_file():
                    build_data["force_include"][str(path)] = (
                        f"{target}/{path.relative_to(source).as_posix()}"
                    )


def _source(here: Path) -> Path:
    """The repository, or what an sdist has of it."""
    return here / "app" if (here / "app").is_dir() else here.parent
