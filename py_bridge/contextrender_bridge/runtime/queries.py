"""Queries of the stored graph that Jac does not have: by ids, in batches, or without archetypes."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, groupby
from typing import Any, cast
from uuid import UUID

from contextrender_bridge.runtime.archetypes import value_problem
from contextrender_bridge.runtime.memory import CURRENT, archetype_fields, node_id
from contextrender_bridge.sessions.ids import caller_root
from contextrender_bridge.store import rows
from contextrender_bridge.store.base import Place


def nodes_before(ids: Iterable[UUID], kind: type) -> list[UUID]:
    """Return the ids of the nodes from which edges of the type `kind` lead to the nodes `ids`."""
    memory = CURRENT.get()
    number = memory.number(kind)
    return list(memory.store.sources(caller_root(), ids, number))


def list_nodes(kind: type, before: Place | None, limit: int) -> list[object]:
    """Return up to `limit` of the caller's nodes of a type, newest first.

    Begin with the node after the place `before`, or with the newest node if it is None. The type
    must have the field `created_at`, which orders the nodes. Nodes whose rows are damaged are
    skipped.
    """
    memory = CURRENT.get()
    number = memory.number(kind)
    nodes: list[object] = []
    # Nodes may be skipped, so read on until there are enough.
    while count := limit - len(nodes):
        places = memory.store.listed(caller_root(), number, before, count)
        listed_at = {id: listed for listed, id in places}
        # A node is damaged if it is not listed by its own `created_at`, or has wrong values.
        nodes += [
            node
            for node in memory.nodes(listed_at)
            if cast(Any, node).created_at == listed_at[node_id(node)]
            and not value_problem(type(node), archetype_fields(node))
        ]
        if len(places) < count:
            break
        before = places[-1]
    return nodes


def has_nodes_between(first: UUID, last: UUID) -> bool:
    """Return whether the caller has stored nodes with ids from `first` to `last`."""
    return bool(CURRENT.get().store.ids_between(caller_root(), first, last, limit=1))


def nodes_between(first: UUID, last: UUID, kind: type | None = None) -> list[UUID]:
    """Return the ids of the caller's stored nodes from `first` to `last`, in order.

    Return only the nodes of the type `kind` if it is given.
    """
    memory = CURRENT.get()
    number = None if kind is None else memory.number(kind)
    return memory.store.ids_between(caller_root(), first, last, kind=number)


def fetch_fields(ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
    """Return the stored fields of the caller's nodes by id; skip missing and unreadable nodes.

    This builds no node objects, and is ten times faster than loading the nodes. Changes of this
    request are included only after `commit_now`. Nodes that the request has loaded are not read
    again.
    """
    memory = CURRENT.get()
    assert memory.owner is not None
    loaded = {id: row for id in ids if (row := memory.row(id)) is not None}
    fields = {id: rows.read_fields(row) for id, row in loaded.items()}
    unread_ids = [id for id in ids if id not in loaded] if loaded else ids
    for id, _, _, data in memory.store.nodes(memory.owner, unread_ids):
        with suppress(ValueError):
            fields[id] = rows.read_fields(data)
    return fields


def in_slices(ids: Iterable[UUID], size: int) -> Iterator[list[UUID]]:
    """Yield the ids of the caller's nodes in order, in slices of about `size` stored bytes.

    Skip ids without a stored node.
    """
    memory, requested = CURRENT.get(), list(ids)
    assert memory.owner is not None
    sizes = dict(memory.store.sizes(memory.owner, requested))
    existing = [id for id in requested if id in sizes]
    # A slice ends with the node that completes a multiple of `size` bytes.
    sums = accumulate(sizes[id] for id in existing)
    slice_numbers = dict(zip(existing, (sum // size for sum in sums), strict=True))
    for _, slice in groupby(existing, key=slice_numbers.__getitem__):
        yield list(slice)


def fetch_edges(
    nodes: Iterable[UUID], kind: type, *, strict: bool = True
) -> list[tuple[UUID, UUID, dict[str, Any]]]:
    """Return the stored edges of a type from the caller's nodes, as source, target and fields.

    For many nodes this is 25 to 40 times faster than following the edges in Jac. If an edge cannot
    be read, raise ValueError if `strict` is true, otherwise skip the edge. Do the same if a damaged
    index returns an edge that leads from another node.
    """
    memory = CURRENT.get()
    assert memory.owner is not None
    sources = set(nodes)
    edge_rows = memory.store.edges_from(memory.owner, sources, memory.number(kind))
    edges = []
    # An edge without a row has no fields.
    for source, _, target, data in edge_rows:
        try:
            if source not in sources:
                raise ValueError("an edge leads from another node")
            edges.append((source, target, {} if data is None else rows.read_fields(data)))
        except ValueError:
            if strict:
                raise
    return edges
