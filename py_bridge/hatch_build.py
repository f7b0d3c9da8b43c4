"""The build hook that adds the Jac app: beside the package in an sdist, inside it in a wheel.

If the Python that builds a wheel has jaclang (`make wheel`), the wheel also has the app compiled
for that Python. Otherwise the app is compiled at its first start.
"""

import importlib
import importlib.util
import marshal
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
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
)
README = "README.md"
SUFFIXES = {".jac", ".py", ".toml", ".json", ".npy", ".npz", ".tiktoken", ".typed"}
COMPILED = f"_precompiled/cpython-{sys.version_info.major}{sys.version_info.minor}"
"""Where jaclang looks for a package's compiled files, below the package."""
ASKS_A_MODEL = re.compile(r" by [\w.]+\(")


class CustomMetadataHook(MetadataHookInterface):
    """The distribution's description is the repository's README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Read the README."""
        text = (_source(Path(self.root)) / README).read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """The hook that reads the app from the repository, or from the sdist that is built from."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the app's files, unless this is an editable install: that reads the repository."""
        if version == "editable":
            return
        source = _source(Path(self.root))
        target = "app" if self.target_name == "sdist" else "contextrender_bridge/app"
        if self.target_name == "sdist":
            build_data["force_include"][str(source / README)] = f"{target}/{README}"
        files = list(_app_files(source))
        for path in files:
            place = path.relative_to(source).as_posix()
            build_data["force_include"][str(path)] = f"{target}/{place}"
        if self.target_name == "wheel" and importlib.util.find_spec("jaclang"):
            self._compiled = tempfile.TemporaryDirectory()
            for path in _compile(source, files, Path(self._compiled.name)):
                place = path.relative_to(self._compiled.name).as_posix()
                build_data["force_include"][str(path)] = f"{target}/{COMPILED}/{place}"


def _app_files(source: Path) -> Iterator[Path]:
    for name in APP:
        root = source / name
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.suffix in SUFFIXES and path.is_file():
                yield path


def _compile(source: Path, files: Iterable[Path], to: Path) -> Iterator[Path]:
    """Compile the Jac files into a folder, like jaclang's own `utils/precompile_bytecode.jac`.

    Skip the files that ask a model: the compiled form lacks the texts that the model is sent.
    """
    runtime = importlib.import_module("jaclang.jac0core.runtime").JacRuntime
    jir = importlib.import_module("jaclang.jac0core.jir")
    replace_source_paths = importlib.import_module(
        "jaclang.jac0core.compiler"
    ).patch_co_filenames_bytes
    compiler, program = runtime.get_compiler(), runtime.get_program()
    for path in files:
        if path.suffix != ".jac" or ASKS_A_MODEL.search(path.read_text("utf-8")):
            continue
        code = marshal.dumps(compiler.get_bytecode(str(path), program))
        compiled_file = to / path.relative_to(source).with_suffix(".jir")
        compiled_file.parent.mkdir(parents=True, exist_ok=True)
        compiled_file.write_bytes(
            jir.write_precompiled_jir(
                # The code then has no paths of this machine.
                replace_source_paths(code, str(source), jir.PRECOMPILE_SENTINEL),
                jir.compute_module_key(str(path)),
                jir.FLAG_PRECOMPILED,
            )
        )
        yield compiled_file


def _source(here: Path) -> Path:
    """Return the folder of the app's sources: in an sdist, or in the repository."""
    return here / "app" if (here / "app").is_dir() else here.parent
