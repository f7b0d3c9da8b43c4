"""What walkers need of the runtime below the language: node ids, owners, and batched loads."""

from collections.abc import Iterable
from typing import Any, cast
from uuid import UUID

from jaclang.jac0core.archetype import EdgeAnchor, NodeAnchor
from jaclang.jac0core.runtime import JacRuntime

from graph.runtime.memory import RequestMemory


def caller_root() -> UUID:
    """The id of the root of the user on whose behalf the current walker runs."""
    return cast(UUID, _context().user_root.id)


def set_id(node: object, identity: UUID) -> None:
    """Gives a node that is not connected yet its id."""
    cast(Any, node).__jac__.id = identity


def node_id(node: object) -> UUID:
    """A node's id."""
    return cast(UUID, cast(Any, node).__jac__.id)


def owned_node(identity: UUID) -> object | None:
    """The node of that id, if there is one and it belongs to the caller."""
    anchor = _context().mem.get(identity)
    if anchor is None or anchor.root != caller_root():
        return None
    return cast(object, anchor.archetype)


def load_nodes(identities: Iterable[UUID]) -> None:
    """Loads nodes in one read, so that visiting them costs no read each."""
    _context().mem.batch_get(list(identities))


def join(source: object, edge: object, target: UUID) -> None:
    """Connects a node to one of the caller's own, which may have thousands of edges.

    It is what `source +>: edge :+> target` is, without loading the target and writing it anew.
    """
    memory = _context().mem
    if not (isinstance(memory, RequestMemory) and memory.appends_edges(target)):
        JacRuntime.connect(source, memory.get(target).archetype, edge)
        return
    start = cast(Any, source).__jac__
    stub = NodeAnchor.__new__(NodeAnchor)
    stub.id = target
    anchor = EdgeAnchor(archetype=edge, source=start, target=stub, is_undirected=False)
    cast(Any, edge).__jac__ = anchor
    start.edges.append(anchor)
    JacRuntime.save(anchor)
    memory.append_edge(target, anchor.id)


def _context() -> Any:
    return JacRuntime.get_context()
