"""The app's packages, in any program: its `nodes` is no other's, and no other's is ours.

In our own programs the app's folder is on the path, and its packages have their plain names. A host
program may have a `graph` or `nodes` of its own, imported before or after ours: there the app's
folder stays off the path, and its packages are loaded as `contextrender_app.nodes` and so on.
Sources keep their plain names. Python asks the `__import__` among a module's builtins for what the
module imports, at its top and in its functions: each module of ours is given one that looks there.
"""

import builtins
import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from contextrender_bridge.base.paths import ENTRY, app_dir

PARENT = "contextrender_app"
OWN = frozenset({"graph", "nodes", "views", "walkers"})
"""The app's packages."""


def make_app_loadable() -> None:
    """From now on our modules find the app's packages, under names that leave a host's alone."""
    if str(app_dir()) not in sys.path and FINDER not in sys.meta_path:
        sys.meta_path.insert(0, FINDER)


def import_entry() -> ModuleType:
    """The app's entry file, imported with all that it imports."""
    name = ENTRY.removesuffix(".jac")
    if FINDER in sys.meta_path:
        # Jac's own finder, there since jaclang was imported, would take ours for modules of anyone.
        sys.meta_path.remove(FINDER)
        sys.meta_path.insert(0, FINDER)
        name = f"{PARENT}.{name}"
    return importlib.import_module(name)


class _Finder(MetaPathFinder):
    """Finds `contextrender_app`, and lets others find what is in it and in the bridge."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec whose module imports as ours do; None for modules of others."""
        if fullname == PARENT:
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(app_dir())]
            return spec
        if fullname.partition(".")[0] not in (PARENT, "contextrender_bridge"):
            return None
        for finder in sys.meta_path:
            found = None if finder is self else finder.find_spec(fullname, path, target)
            if found is not None:
                if found.loader is not None:
                    found.loader = _OwnLoader(found.loader)
                return found
        return None


FINDER: Final = _Finder()


class _OwnLoader(Loader):
    """Another loader, whose modules are given an `__import__` of their own."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        """What else the loader has, such as the reading of a package's files."""
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The loader's module."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Let the loader run it; its builtins are ours by then."""
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": _import}
        self._loader.exec_module(module)


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """`__import__`, which knows the app's packages by their plain names."""
    top = name.partition(".")[0]
    if level or top not in OWN:
        return builtins.__import__(name, globals, locals, fromlist or (), level)
    module = builtins.__import__(f"{PARENT}.{name}", globals, locals, fromlist or (), 0)
    return module if fromlist else sys.modules[f"{PARENT}.{top}"]
