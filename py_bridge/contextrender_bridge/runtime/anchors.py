"""What walkers need of the graph below the language: ids, owners, batched loads, plain rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, groupby
from typing import Any, cast
from uuid import UUID

from jaclang.jac0core.archetype import EdgeAnchor, NodeAnchor

from contextrender_bridge.runtime.memory import CURRENT
from contextrender_bridge.sessions.ids import caller_root
from contextrender_bridge.store import rows
from contextrender_bridge.store.base import Place


def set_ids(nodes: Iterable[object], ids: Iterable[UUID]) -> None:
    """Gives nodes that are not connected yet their ids."""
    for node, id in zip(nodes, ids, strict=True):
        cast(Any, node).__jac__.id = id


def set_id(node: object, id: UUID) -> None:
    """Gives a node that is not connected yet its id."""
    cast(Any, node).__jac__.id = id


def node_id(node: object) -> UUID:
    """A node's id."""
    return cast(UUID, cast(Any, node).__jac__.id)


def joined(source: object, kind: type, target: object) -> bool:
    """Whether an edge of a type joins them: an id finds a node, that proves where it belongs.

    It is looked for at the target: a root has an edge to each of its owner's sessions.
    """
    start = node_id(source)
    edges = cast(Any, target).__jac__.edges
    return any(edge.source.id == start and type(edge.archetype) is kind for edge in edges)


def nodes_before(ids: Iterable[UUID], kind: type) -> list[UUID]:
    """The ids of the nodes that an edge of a type leads from to one of these of the caller's."""
    memory = CURRENT.get()
    number = memory.number(kind)
    return list(memory.store.sources(caller_root(), ids, number))


def list_nodes(kind: type, before: Place | None, limit: int) -> list[object]:
    """The caller's newest nodes of a type that stand before a place, newest first.

    It is read from an index: no node lists them. The type has a field `created_at`.
    """
    memory = CURRENT.get()
    number = memory.number(kind)
    return memory.nodes(memory.store.listed(caller_root(), number, before, limit))


def edges_at(node: object) -> list[tuple[str, bool, UUID, object]]:
    """Every edge at a node: its type's name, whether it leaves the node, the other end, the edge.

    Those that leave come first, each type together.
    """
    here = node_id(node)
    found = [
        (type(edge.archetype).__name__, edge.source.id == here, edge)
        for edge in cast(Any, node).__jac__.edges
    ]
    found.sort(key=lambda one: (not one[1], one[0], one[2].id))
    return [
        (kind, leaves, edge.target.id if leaves else edge.source.id, edge.archetype)
        for kind, leaves, edge in found
    ]


def edge_of(kind: type, fields: Mapping[str, object]) -> object:
    """Return a new edge of a type that holds these fields."""
    return kind(**fields)


def edge_fields(edge: object) -> dict[str, object]:
    """Return what an edge holds."""
    return {name: value for name, value in vars(edge).items() if name[0] != "_"}


def join(source: object, edges: Iterable[tuple[object, UUID]]) -> None:
    """Connects a node that is connected already to others of the caller's, by their ids: they need
    not be loaded. It is what `source +>: edge :+> target` is.
    """
    memory, start = CURRENT.get(), cast(Any, source).__jac__
    made: list[EdgeAnchor] = []
    for edge, target in edges:
        loaded = memory.__mem__.get(target)
        if loaded is None:
            end = NodeAnchor.__new__(NodeAnchor)
            end.id = target
        else:
            end = loaded
        anchor = EdgeAnchor(archetype=edge, source=start, target=end, is_undirected=False)
        anchor.persistent, anchor.root = True, start.root
        cast(Any, edge).__jac__ = anchor
        start.edges.append(anchor)
        if loaded is not None:
            loaded.edges.append(anchor)
        made.append(anchor)
    memory.put_all(made)


def part(source: object, kind: type, target: object) -> None:
    """Takes the edge of a type between two nodes away, if there is one. A hop would read whatever
    else the source leads to."""
    CURRENT.get().part(node_id(source), kind, node_id(target))


def has_nodes_between(first: UUID, last: UUID) -> bool:
    """Return whether the caller has stored nodes with ids from `first` to `last`."""
    return bool(CURRENT.get().store.ids_between(caller_root(), first, last, limit=1))


def nodes_between(first: UUID, last: UUID) -> list[UUID]:
    """Return the ids of the caller's stored nodes from `first` to `last`, in order."""
    return CURRENT.get().store.ids_between(caller_root(), first, last)


def fetch_fields(ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
    """The committed fields of the caller's nodes; ids that are unknown, or whose rows cannot be
    read, are left out.

    Building no archetypes, it reads ten times faster than loading the nodes. What this request
    changed is visible after `commit_now`; nodes that it has loaded are not read again.
    """
    memory = CURRENT.get()
    assert memory.owner is not None
    loaded = {id: row for id in ids if (row := memory.row(id)) is not None}
    found = {id: rows.parse(row)[0] for id, row in loaded.items()}
    others = [id for id in ids if id not in loaded] if loaded else ids
    for id, _, _, data in memory.store.nodes(memory.owner, others):
        with suppress(ValueError):
            found[id] = rows.read(data)[1]
    return found


def in_slices(ids: Iterable[UUID], size: int) -> Iterator[list[UUID]]:
    """Those of the caller's nodes that are there, in order, a slice about `size` stored bytes."""
    memory, wanted = CURRENT.get(), list(ids)
    assert memory.owner is not None
    sizes = dict(memory.store.sizes(memory.owner, wanted))
    there = [id for id in wanted if id in sizes]
    ends = accumulate(sizes[id] for id in there)
    for _, slice in groupby(zip(there, ends, strict=True), key=lambda one: one[1] // size):
        yield [id for id, _ in slice]


def fetch_edges(
    nodes: Iterable[UUID], kind: type, *, strict: bool = True
) -> list[tuple[UUID, UUID, dict[str, Any]]]:
    """The committed edges of a type out of the caller's nodes: source, target, fields.

    For many nodes 25 to 40 times faster than hopping from each. Raises ValueError for one that
    cannot be read, or leaves it out if not `strict`.
    """
    memory = CURRENT.get()
    assert memory.owner is not None
    stored = memory.store.edges_out(memory.owner, nodes, memory.number(kind))
    found = []
    for source, target, data in stored:
        try:
            found.append((source, target, {} if data is None else rows.read(data)[1]))
        except ValueError:
            if strict:
                raise
    return found
