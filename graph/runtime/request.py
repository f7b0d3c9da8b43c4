"""What a walker asks of its request beyond nodes and edges: rows as they are, commits, locks."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, batched, groupby
from typing import Any
from uuid import UUID

from graph.runtime.memory import CURRENT
from graph.store import rows
from graph.store.writes import WIPED_AT_ONCE


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


def fetch_edges(nodes: Iterable[UUID], kind: type) -> list[tuple[UUID, UUID, dict[str, Any]]]:
    """The committed edges of a type out of the caller's nodes: source, target, fields.

    For many nodes 25 to 40 times faster than hopping from each. Raises ValueError for one that
    cannot be read.
    """
    memory = CURRENT.get()
    assert memory.owner is not None
    stored = memory.store.edges_out(memory.owner, nodes, memory.number(kind))
    return [
        (source, target, {} if data is None else rows.read(data)[1])
        for source, target, data in stored
    ]


def commit_now() -> None:
    """Write this request's changes now, inside whatever lock the walker holds; raises on failure.

    A walker that fails later keeps what was written here.
    """
    CURRENT.get().flush()


def wipe(mark: UUID, ids: Iterable[UUID]) -> None:
    """Deletes the caller's nodes unseen, with their edges, in slices: others write in between.

    Each slice finds the node `mark` as it was, so that nothing is deleted that came after it went.
    A request that loses a race afterwards may run again: it finds what is still to go.
    """
    memory, wanted = CURRENT.get(), list(ids)
    memory.fence(mark)
    wrote = memory.wrote
    # As each table is laid out: edges by their nodes' ids, nodes as they came. A slice is then of
    # few pages, and each page is written in few slices. What is one slice goes in one write.
    for some in batched(sorted(wanted), WIPED_AT_ONCE):
        memory.cut(some)
        if len(wanted) > WIPED_AT_ONCE:
            memory.flush()
    for some in batched(wanted, WIPED_AT_ONCE):
        memory.wipe(some)
        memory.flush()
    memory.wrote = wrote


def hold_until_done(lock: Any) -> None:
    """Takes a lock that the current request gives back when it ends."""
    CURRENT.get().held.enter_context(lock)
