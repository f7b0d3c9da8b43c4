"""What one request sees and writes: its own user's graph, committed once or not at all.

jaclang 0.16.7's memory of a request, over our store. Long because jaclang's interface reads,
changes and commits in one class.
"""

import logging
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any, Final
from uuid import UUID

from jaclang.jac0core.archetype import (
    EdgeAnchor,
    NodeAnchor,
)
from jaclang.jac0core.constant import Constants
from jaclang.jac0core.constructs import Root
from jaclang.jac0core.runtime import JacRuntimeInterface as Jac
from jaclang.runtimelib.memory import TieredMemory

from contextrender_bridge.runtime.archetypes import (
    NEW,
    STORED,
    StoredEdges,
    StoredEnds,
    edge_name,
    edges_from,
    forget_edges,
    name_of,
    nodes_from,
    number_of,
    type_at,
)
from contextrender_bridge.runtime.unit_of_work import Changes, Forbidden, StoredNode
from contextrender_bridge.sessions.ids import CALLER
from contextrender_bridge.sessions.locks import SessionLocks
from contextrender_bridge.store.base import EdgeRow, NodeRow, Store

log = logging.getLogger("contextrender")

SYSTEM_ROOT: Final = UUID(Constants.SUPER_ROOT_UUID.value)
NO_ROWS: Final = -1
"""The number of a type that was never stored."""


Kept = dict[UUID, tuple[Any, StoredNode] | None]
"""Anchors of nodes with their rows; None for a node that is not there."""


class RequestMemory(TieredMemory):
    """The anchors of one request.

    The runtime commits when a walk ends and swallows what goes wrong, so `commit` does nothing
    here: `flush` writes, once the reply is known to be a success. A failed flush stays failed.
    """

    def __init__(
        self, store: Store, owner: UUID | None = None, locks: SessionLocks | None = None
    ) -> None:
        """Sees the nodes of `owner`; without one, roots alone."""
        super().__init__()
        self.store = store
        self.locks = locks or SessionLocks()
        self.owner = owner
        # Left when the request ends, with its failure if it has one.
        self.held = ExitStack()
        self.wrote = False
        self.read_only = False
        self.settled = False
        """Whether all that is loaded is as it is stored."""
        self._changes = Changes(owner, store.kinds)
        self._at: defaultdict[UUID, list[Any]] = defaultdict(list)
        self._failure: BaseException | None = None
        self._absent: set[UUID] = set()
        self.root: Any = None
        """The owner's, if there is one."""
        if owner is not None:
            self._enter_root(owner)

    # Reading.

    def get(self, id: UUID) -> Any:
        """The anchor, if it is the owner's: the runtime itself lets anyone read any node by id."""
        found = self.__mem__.get(id)
        return found if found is not None else self.batch_get([id]).get(id)

    def batch_get(self, ids: list[UUID]) -> dict[UUID, Any]:
        """As `get`, for many, in one read."""
        found = {id: self.__mem__[id] for id in ids if id in self.__mem__}
        gone = self._changes.removed.keys() | self._absent
        missing = [id for id in ids if id not in found and id not in gone]
        if missing:
            owner = self.owner or missing[0]
            for id in self._take(self.store.nodes(owner, missing), owner):
                found[id] = self.__mem__[id]
        return found

    def nodes(self, ids: Iterable[UUID]) -> list[Any]:
        """Those of some nodes that are there, in one read. Those that are not are not asked for
        again."""
        wanted = list(ids)
        found = self.batch_get(wanted)
        self._absent.update(id for id in wanted if id not in found)
        return [found[id].archetype for id in wanted if id in found]

    def load(self, hubs: Sequence[UUID]) -> None:
        """In one read, some nodes with their edges."""
        assert self.owner is not None
        nodes, edges = self.store.nodes_with_edges(self.owner, hubs)
        gone = self._changes.removed
        fresh = [row for row in nodes if row[0] not in self.__mem__ and row[0] not in gone]
        group = self._take(fresh, self.owner)
        self._absent.update(hubs)
        self._spread(group, edges)

    def give(self, ids: Iterable[UUID]) -> Kept:
        """Takes nodes out, as they were written or read, for another request to `adopt`."""
        kept: Kept = {}
        for id in ids:
            stored = self._changes.nodes.get(id)
            if stored is not None and id in self.__mem__:
                anchor = self.__mem__.pop(id)
                anchor.edges = []
                kept[id] = anchor, stored
            elif id in self._absent:
                kept[id] = None
        return kept

    def adopt(self, kept: Kept, session: UUID) -> bool:
        """Takes in what another request gave, if nobody wrote to the session since: whoever does
        writes its node, too."""
        anchor, stored = kept.get(session) or (None, None)
        if anchor is None or stored is None or self.owner is None:
            return False
        if self.store.stamp(self.owner, session) != (stored.rev, anchor.archetype.created_at):
            return False
        there = {id: held for id, held in kept.items() if held is not None}
        self._absent.update(kept.keys() - there.keys())
        self.__mem__ |= {id: anchor for id, (anchor, _) in there.items()}
        self._changes.nodes |= {id: row for id, (_, row) in there.items()}
        anchors = [anchor for anchor, _ in there.values()]
        forget_edges(anchors, partial(self._fill, [*there]))
        return True

    def row(self, id: UUID) -> bytes | None:
        """A node's committed row, not compressed, where this request has read it."""
        known = self._changes.nodes.get(id)
        return known.row if known is not None and known.row else None

    def number(self, kind: type) -> int:
        """Return the number that a type is stored under.

        A request that stores nothing numbers no type, so that it works on a full disk. For a type
        that was never stored it gets a number that no row has.
        """
        if self.read_only:
            number = self.store.kinds.find(*name_of(kind))
            return NO_ROWS if number is None else number
        return number_of(self.store.kinds, kind)

    def has(self, id: UUID) -> bool:
        """Whether `get` finds it."""
        return self.get(id) is not None

    def find(self, ids: Any, filter: Any = None) -> Generator[Any, None, None]:
        """Those of some ids that are there."""
        for anchor in self.batch_get([ids] if isinstance(ids, UUID) else list(ids)).values():
            if filter is None or filter(anchor):
                yield anchor

    def find_one(self, ids: Any, filter: Any = None) -> Any:
        """The first of them."""
        return next(self.find(ids, filter), None)

    def get_roots(self) -> Generator[Any, None, None]:
        """The owner's own: nobody is to walk from another user's."""
        yield from (a.archetype for a in self.__mem__.values() if isinstance(a.archetype, Root))

    # Changing.

    def put(self, anchor: Any) -> None:
        """Keep an anchor. An edge's id follows from its ends: made twice, it is there once."""
        if isinstance(anchor, EdgeAnchor) and anchor.hash == NEW and anchor.is_populated():
            anchor.id = edge_id(anchor.source.id, type(anchor.archetype), anchor.target.id)
            self._note_ends(anchor)
        self.__mem__[anchor.id] = anchor

    def put_all(self, anchors: Iterable[Any]) -> None:
        """As `put`, for many."""
        for anchor in anchors:
            self.put(anchor)

    def delete(self, id: UUID) -> None:
        """Forget an anchor; its row goes with the next flush, and a node's edges with it."""
        anchor = self.get(id)
        self.__mem__.pop(id, None)
        self._changes.take_away(id)
        if isinstance(anchor, EdgeAnchor):
            self._unlist(anchor)
        self._forget_edges_at(id)

    def part(self, source: UUID, kind: type, target: UUID) -> None:
        """Take an edge away, read or not."""
        if (id := edge_id(source, kind, target)) in self.__mem__:
            self.delete(id)
        elif self.owner is not None:
            self._changes.parted[id] = (self.owner, source, self.number(kind), target)

    def fence(self, id: UUID) -> None:
        """What is written must find this node as it was read, if it was read."""
        self._changes.fences.add(id)

    def cut(self, ids: Iterable[UUID]) -> None:
        """Stored nodes whose edges go with the next flush, unseen."""
        self._changes.cut += ids

    def wipe(self, ids: Iterable[UUID]) -> None:
        """Stored nodes that go with the next flush, unseen; `cut` their edges before."""
        self._changes.wiped += ids

    def commit(self, anchor: object = None) -> None:
        """Wait for `flush`."""

    def abort(self) -> None:
        """Nothing was written, so nothing is to be undone."""

    def flush(self) -> None:
        """Write everything changed so far. Raises Raced, Forbidden or StoreUnavailable."""
        if self.read_only:
            return
        if self._failure is not None:
            raise self._failure
        if Jac.get_context().diagnostics:
            raise Forbidden("This would change data of another user.")
        collected = self._changes.collect(list(self.__mem__.values()))
        self.settled = True
        if collected is None:
            return
        unit, written = collected
        try:
            self.store.write(unit)
        except BaseException as failure:
            self._failure = failure
            raise
        for id in self._changes.cut:
            self._forget_edges_at(id)
        for id in self._changes.wiped:
            self.__mem__.pop(id, None)
        self._changes.done(written)
        for id in (*written.nodes, *written.edges):
            self.__mem__[id].hash = STORED
        self.wrote = True

    def close(self) -> None:
        """Drop what was not flushed."""
        loaded = [anchor for id, anchor in self.__mem__.items() if id != SYSTEM_ROOT]
        self.__mem__.clear()
        # Nodes, edges and their anchors refer to each other in circles: left so, the garbage of a
        # large request stops the process later, for a quarter of a second.
        for anchor in loaded:
            vars(anchor).clear()

    def quarantine_ref(self, referrer: object, stub: object) -> None:
        """An edge whose end does not load stays as it is: `contextrender check` tells of it."""

    def is_recoverable_quarantine(self, id: UUID) -> bool:
        """Whether an end that does not load is to be left alone: always."""
        return True

    # Rows and anchors.

    def _enter_root(self, owner: UUID) -> None:
        """The caller's root, which has no fields to read."""
        root = Root()
        anchor = root.__jac__
        anchor.id, anchor.persistent, anchor.hash = owner, True, STORED
        anchor.edges = StoredEdges(partial(self._fill, [owner]))
        self.root = self.__mem__[owner] = anchor
        self._changes.nodes[owner] = StoredNode(0, b"")

    def _take(self, stored: Sequence[NodeRow], owner: UUID) -> list[UUID]:
        """Those that this program can read: when one's edges are asked for, all are read."""
        group: list[UUID] = []
        made = nodes_from(self.store.kinds, stored, owner, partial(self._fill, group))
        for (id, rev, kind, _), node in zip(stored, made, strict=True):
            if isinstance(node, Exception):
                # It may be a later version's: it stays where it is, and nothing is written over it.
                self._changes.unreadable[id] = rev
                _tell(id, ".".join(self.store.kinds.name(kind)), str(node))
                continue
            self.__mem__[id], row = node
            self._changes.nodes[id] = StoredNode(rev, row)
            group.append(id)
        return group

    def _fill(self, group: list[UUID]) -> None:
        """Reads the edges of every node of a group that waits for them."""
        waiting = [id for id in group if self._waits(id) is not None]
        self._spread(waiting, self.store.edges(self.owner or group[0], waiting))

    def _spread(self, waiting: Iterable[UUID], stored: Iterable[EdgeRow]) -> None:
        """Gives each of these nodes those of the stored edges that are its own."""
        lists: dict[UUID, dict[UUID, Any]] = {id: {} for id in waiting}
        for anchor in self._take_edges(stored):
            for end in (anchor.source.id, anchor.target.id):
                if end in lists:
                    lists[end][anchor.id] = anchor
        for id, edges in lists.items():
            if (list_ := self._waits(id)) is not None:
                list_.fill(list(edges.values()))

    def _waits(self, id: UUID) -> StoredEdges | None:
        """A node's edges, where they are yet to be read."""
        edges = vars(self.__mem__[id])["edges"] if id in self.__mem__ else None
        return edges if isinstance(edges, StoredEdges) and edges.waiting else None

    def _take_edges(self, stored: Iterable[EdgeRow]) -> list[Any]:
        """Those that are not taken away, and whose type the program has."""
        changes, known = self._changes, dict[UUID, Any]()
        fresh: dict[UUID, StoredEnds] = {}
        for source, number, target, data in stored:
            try:
                kind = type_at(self.store.kinds, number)
            except TypeError:
                continue
            id = edge_id(source, kind, target)
            if source in changes.removed or target in changes.removed or id in changes.parted:
                continue
            if id in self.__mem__:
                known[id] = self.__mem__[id]
            else:
                end = (self.owner or source, source, number, target)
                fresh[id] = (end, kind, (self._end(source), self._end(target)), data)
        for (id, (end, *_)), (anchor, row) in zip(fresh.items(), edges_from(fresh), strict=True):
            self.__mem__[id] = known[id] = anchor
            changes.edges[id] = (end, row)
            self._note_ends(anchor)
        return list(known.values())

    def _note_ends(self, edge: Any) -> None:
        for end in (edge.source.id, edge.target.id):
            self._at[end].append(edge)

    def _end(self, id: UUID) -> Any:
        """A node's anchor, or what stands for it until it is looked at."""
        if (anchor := self.__mem__.get(id)) is not None:
            return anchor
        stub = NodeAnchor.__new__(NodeAnchor)
        stub.id = id
        return stub

    def _forget_edges_at(self, id: UUID) -> None:
        for edge in self._at.pop(id, ()):
            self.__mem__.pop(edge.id, None)
            self._changes.edges.pop(edge.id, None)
            self._unlist(edge)

    def _unlist(self, edge: Any) -> None:
        """Takes an edge off its ends' lists."""
        for end in (edge.source.id, edge.target.id):
            anchor = self.__mem__.get(end)
            edges = [] if anchor is None else vars(anchor).get("edges", [])
            if isinstance(edges, StoredEdges):
                # Those that are yet to be read are left out then.
                edges = [] if edges.waiting else edges.data
            if edge in edges:
                edges.remove(edge)


def edge_id(source: UUID, kind: type, target: UUID) -> UUID:
    """The id of the edge of a type between two nodes."""
    told = source.bytes + target.bytes + edge_name(kind)
    return UUID(bytes=blake2b(told, digest_size=16).digest())


CURRENT: Final[ContextVar[RequestMemory]] = ContextVar("request_memory")
"""The current request's. The runtime's own way to it asks its plugins first, at each of 40 uses."""


def owned_node(id: UUID) -> object | None:
    """The node of that id, if there is one and it belongs to the caller."""
    found: list[object] = CURRENT.get().nodes([id])
    return found[0] if found else None


def nodes_at(ids: Iterable[UUID]) -> list[object]:
    """Those of these nodes of the caller's that are there, loaded in one read."""
    return CURRENT.get().nodes(ids)


def load_ahead(hubs: Sequence[UUID]) -> None:
    """Loads nodes with their edges in one read."""
    CURRENT.get().load(hubs)


@lru_cache(1_000)
def _tell(id: UUID, kind: str, why: str) -> None:
    """Once a process, not once a read."""
    log.warning("%s %s cannot be read: %s (see `contextrender check`)", kind, id, why)


@contextmanager
def at_work(memory: RequestMemory) -> Iterator[None]:
    """It is the current one for the block, and closed then."""
    current = CURRENT.set(memory)
    caller = CALLER.set(memory.owner or SYSTEM_ROOT)
    try:
        yield
    finally:
        CALLER.reset(caller)
        CURRENT.reset(current)
        memory.close()
