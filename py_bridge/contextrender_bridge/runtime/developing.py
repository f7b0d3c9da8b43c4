"""What a Jac developer does with the stored graph: own walkers, and a picture of a session."""

from pathlib import Path
from typing import Any, Final

from jaclang.jac0core.archetype import WalkerArchetype
from jaclang.jac0core.runtime import JacRuntime
from jaclang.jac0core.runtime import JacRuntimeInterface as Jac
from jaclang.runtimelib.builtin import printgraph

from contextrender_bridge.runtime.memory import owned_node
from contextrender_bridge.sessions.ids import session_id

MOST_NODES: Final = 10_000
MOST_EDGES: Final = 100_000


def walkers_of(file: Path) -> dict[str, type[Any]]:
    """The walkers that a file of Jac declares, by name; it is imported."""
    JacRuntime.jac_import(target=file.stem, base_path=str(file.resolve().parent), lng="jac")
    module = JacRuntime.loaded_modules[file.stem]
    return {
        each.__name__: each
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, WalkerArchetype)
        and each.__module__ == module.__name__
    }


def spawn_at_root(walker: Any) -> None:
    """Runs it from the root of the user whose unit of work this is."""
    Jac.spawn(walker, Jac.get_context().get_root())


def drawn(key: str) -> str | None:
    """The user's session of that key for Graphviz, if there is one."""
    session = owned_node(session_id(key))
    if session is None:
        return None
    return str(printgraph(session, traverse=True, node_limit=MOST_NODES, edge_limit=MOST_EDGES))
