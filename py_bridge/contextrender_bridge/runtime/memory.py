"""The graph as one request reads and changes it: its user's alone, committed once or not at all.

It implements the request memory of jaclang 0.16.7 on our store. Long because jaclang's interface
reads, changes and commits in one class.
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
    HASH_NEW,
    HASH_STORED,
    EdgeToLoad,
    StoredEdges,
    edge_name,
    edges_from,
    forget_edges,
    name_of,
    nodes_from,
    number_of,
    type_at,
)
from contextrender_bridge.runtime.unit_of_work import (
    CommittedRows,
    Forbidden,
    PendingChanges,
    StoredNode,
)
from contextrender_bridge.sessions.ids import CALLER
from contextrender_bridge.sessions.locks import SessionLocks
from contextrender_bridge.store.base import EdgeRow, NodeRow, Store

log = logging.getLogger("contextrender")

SYSTEM_ROOT: Final = UUID(Constants.SUPER_ROOT_UUID.value)
NO_ROWS: Final = -1
"""The number of a type that was never stored."""

NodesById = dict[UUID, tuple[Any, StoredNode] | None]
"""Anchors of nodes with their rows, by id; None for a node that does not exist."""


class RequestMemory(TieredMemory):
    """The anchors of one request.

    The runtime commits when a walk ends, and hides errors. Therefore `commit` does nothing here,
    and the server calls `flush` once the reply is a success. After a failed flush, each one fails.
    """

    def __init__(
        self, store: Store, owner: UUID | None = None, locks: SessionLocks | None = None
    ) -> None:
        """Open the graph of `owner`, or roots alone if it is None."""
        super().__init__()
        self.store = store
        self.locks = locks or SessionLocks()
        self.owner = owner
        # Closed when the request ends, with the request's error if it fails.
        self.on_end = ExitStack()
        self.wrote = False
        self.read_only = False
        self.all_stored = False
        """True if the store has every loaded node and edge as it is here."""
        self._changes = PendingChanges(owner, store.kinds)
        self._edges_at: defaultdict[UUID, list[Any]] = defaultdict(list)
        """The loaded edges at each node."""
        self._failure: BaseException | None = None
        self._absent: set[UUID] = set()
        """Ids that no node has."""
        self.root: Any = None
        """The anchor of the owner's root; None without an owner."""
        if owner is not None:
            self._add_root(owner)

    # Reading.

    def get(self, id: UUID) -> Any:
        """Return the anchor if it is the owner's: jaclang itself reads any user's node by id."""
        anchor = self.__mem__.get(id)
        return anchor if anchor is not None else self.batch_get([id]).get(id)

    def batch_get(self, ids: list[UUID]) -> dict[UUID, Any]:
        """Return the owner's anchors of these ids, by id, with one read."""
        anchors = {id: self.__mem__[id] for id in ids if id in self.__mem__}
        absent = self._changes.deleted_nodes.keys() | self._absent
        unread = [id for id in ids if id not in anchors and id not in absent]
        if unread:
            owner = self.owner or unread[0]
            for id in self._keep_nodes(self.store.nodes(owner, unread), owner):
                anchors[id] = self.__mem__[id]
        return anchors

    def nodes(self, ids: Iterable[UUID]) -> list[Any]:
        """Return the nodes of the ids that exist, with one read.

        The request does not read the other ids again.
        """
        requested = list(ids)
        anchors = self.batch_get(requested)
        self._absent.update(id for id in requested if id not in anchors)
        return [anchors[id].archetype for id in requested if id in anchors]

    def load(self, hubs: Sequence[UUID]) -> None:
        """Load nodes with their edges, with one read."""
        assert self.owner is not None
        nodes, edges = self.store.nodes_with_edges(self.owner, hubs)
        removed = self._changes.deleted_nodes
        new = [row for row in nodes if row[0] not in self.__mem__ and row[0] not in removed]
        group = self._keep_nodes(new, self.owner)
        # Also those that exist: `absent` ids are only looked up if they are not loaded.
        self._absent.update(hubs)
        self._fill_edge_lists(group, edges)

    def give(self, ids: Iterable[UUID]) -> NodesById:
        """Take nodes out of this memory, as they are stored, for another request to `adopt`."""
        nodes: NodesById = {}
        for id in ids:
            row = self._changes.nodes.get(id)
            if row is not None and id in self.__mem__:
                anchor = self.__mem__.pop(id)
                anchor.edges = []
                nodes[id] = anchor, row
            elif id in self._absent:
                nodes[id] = None
        return nodes

    def adopt(self, nodes: NodesById, session: UUID) -> bool:
        """Take over the nodes that another request gave, and return True.

        Return False if another request has written to the session since: each of them also writes
        the session's node, so that its revision changes.
        """
        session_node = nodes.get(session)
        if session_node is None or self.owner is None:
            return False
        anchor, row = session_node
        if self.store.revision_of(self.owner, session) != (row.rev, anchor.archetype.created_at):
            return False
        existing = {id: node for id, node in nodes.items() if node is not None}
        self._absent.update(nodes.keys() - existing.keys())
        self.__mem__ |= {id: anchor for id, (anchor, _) in existing.items()}
        self._changes.nodes |= {id: row for id, (_, row) in existing.items()}
        anchors = [anchor for anchor, _ in existing.values()]
        forget_edges(anchors, partial(self._fill, [*existing]))
        return True

    def row(self, id: UUID) -> bytes | None:
        """Return a node's committed row, not compressed, if this request has read it."""
        node = self._changes.nodes.get(id)
        return node.row if node is not None and node.row else None

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
        """Return whether `get` finds the id."""
        return self.get(id) is not None

    def find(self, ids: Any, filter: Any = None) -> Generator[Any, None, None]:
        """Yield the owner's anchors of these ids."""
        for anchor in self.batch_get([ids] if isinstance(ids, UUID) else list(ids)).values():
            if filter is None or filter(anchor):
                yield anchor

    def find_one(self, ids: Any, filter: Any = None) -> Any:
        """Return the first anchor that `find` yields, or None."""
        return next(self.find(ids, filter), None)

    def get_roots(self) -> Generator[Any, None, None]:
        """Yield the owner's root alone, so that no walk starts at another user's."""
        yield from (a.archetype for a in self.__mem__.values() if isinstance(a.archetype, Root))

    # Changing.

    def put(self, anchor: Any) -> None:
        """Keep an anchor.

        A new edge's id follows from its ends, so that an edge that is made twice exists once.
        """
        if isinstance(anchor, EdgeAnchor) and anchor.hash == HASH_NEW and anchor.is_populated():
            anchor.id = edge_id(anchor.source.id, type(anchor.archetype), anchor.target.id)
            self._add_to_ends(anchor)
        self.__mem__[anchor.id] = anchor

    def put_all(self, anchors: Iterable[Any]) -> None:
        """Keep several anchors."""
        for anchor in anchors:
            self.put(anchor)

    def delete(self, id: UUID) -> None:
        """Forget an anchor; the next flush deletes its row and, of a node, its edges."""
        anchor = self.get(id)
        self.__mem__.pop(id, None)
        self._changes.delete_row(id)
        if isinstance(anchor, EdgeAnchor):
            self._unlist(anchor)
        self._forget_edges_at(id)

    def delete_edge(self, source: UUID, kind: type, target: UUID) -> None:
        """Delete an edge, which need not be loaded."""
        if (id := edge_id(source, kind, target)) in self.__mem__:
            self.delete(id)
        elif self.owner is not None:
            self._changes.deleted_edges[id] = (self.owner, source, self.number(kind), target)

    def require_unchanged(self, id: UUID) -> None:
        """Let each flush fail if another request has changed this node since it was read."""
        self._changes.required_unchanged.add(id)

    def delete_edges_at(self, ids: Iterable[UUID]) -> None:
        """Delete the edges of stored nodes with the next flush, without loading them."""
        self._changes.edges_deleted_at += ids

    def delete_unread(self, ids: Iterable[UUID]) -> None:
        """Delete stored nodes with the next flush, without loading them.

        The caller must delete their edges before, by `delete_edges_at`.
        """
        self._changes.deleted_unread += ids

    def commit(self, anchor: object = None) -> None:
        """Do nothing: `flush` writes."""

    def abort(self) -> None:
        """Do nothing: before `flush`, nothing is written."""

    def flush(self) -> None:
        """Write all changes so far; raise WriteConflict, Forbidden or StoreUnavailable.

        After a failed write, each further flush raises the same error.
        """
        if self.read_only:
            return
        if self._failure is not None:
            raise self._failure
        if Jac.get_context().diagnostics:
            raise Forbidden("This would change data of another user.")
        collected = self._changes.collect(list(self.__mem__.values()))
        self.all_stored = True
        if collected is None:
            return
        batch, committed = collected
        try:
            self.store.write(batch)
        except BaseException as failure:
            self._failure = failure
            raise
        self._forget_changes(committed)
        self.wrote = True

    def _forget_changes(self, committed: CommittedRows) -> None:
        """Bring the loaded nodes and edges to the state that was written."""
        for id in self._changes.edges_deleted_at:
            self._forget_edges_at(id)
        for id in self._changes.deleted_unread:
            self.__mem__.pop(id, None)
        self._changes.mark_written(committed)
        for id in (*committed.nodes, *committed.edges):
            self.__mem__[id].hash = HASH_STORED

    def close(self) -> None:
        """Drop what was not flushed."""
        loaded = [anchor for id, anchor in self.__mem__.items() if id != SYSTEM_ROOT]
        self.__mem__.clear()
        # Break the reference cycles of nodes, edges and anchors. Collecting the garbage of a large
        # request would stop the process for a quarter of a second.
        for anchor in loaded:
            vars(anchor).clear()

    def quarantine_ref(self, referrer: object, stub: object) -> None:
        """Do nothing for an edge to a missing node: `contextrender check` finds it."""

    def is_recoverable_quarantine(self, id: UUID) -> bool:
        """Return True, so that jaclang keeps an edge to a node that cannot be loaded."""
        return True

    # Rows and anchors.

    def _add_root(self, owner: UUID) -> None:
        """Create the anchor of the owner's root, which has no fields to read."""
        root = Root()
        anchor = root.__jac__
        anchor.id, anchor.persistent, anchor.hash = owner, True, HASH_STORED
        anchor.edges = StoredEdges(partial(self._fill, [owner]))
        self.root = self.__mem__[owner] = anchor
        self._changes.nodes[owner] = StoredNode(0, b"")

    def _keep_nodes(self, node_rows: Sequence[NodeRow], owner: UUID) -> list[UUID]:
        """Keep the nodes that this program can read, and return their ids.

        The first use of one node's edges reads the edges of all of them.
        """
        group: list[UUID] = []
        nodes = nodes_from(self.store.kinds, node_rows, owner, partial(self._fill, group))
        for (id, rev, kind, _), node in zip(node_rows, nodes, strict=True):
            if isinstance(node, Exception):
                # A later version may have written it, so it is not overwritten.
                self._changes.unreadable[id] = rev
                _warn_unreadable(id, ".".join(self.store.kinds.name(kind)), str(node))
                continue
            self.__mem__[id], row = node
            self._changes.nodes[id] = StoredNode(rev, row)
            group.append(id)
        return group

    def _fill(self, group: list[UUID]) -> None:
        """Read the edges of each node of a group whose edges are unread."""
        unread = [id for id in group if self._unread_edges(id) is not None]
        self._fill_edge_lists(unread, self.store.edges(self.owner or group[0], unread))

    def _fill_edge_lists(self, nodes: Iterable[UUID], edge_rows: Iterable[EdgeRow]) -> None:
        """Fill the edge list of each of these nodes with its own edges."""
        edges_by_node: dict[UUID, dict[UUID, Any]] = {id: {} for id in nodes}
        for edge in self._keep_edges(edge_rows):
            for end in (edge.source.id, edge.target.id):
                if end in edges_by_node:
                    edges_by_node[end][edge.id] = edge
        for id, edges in edges_by_node.items():
            if (edge_list := self._unread_edges(id)) is not None:
                edge_list.fill(list(edges.values()))

    def _unread_edges(self, id: UUID) -> StoredEdges | None:
        """Return a node's edges if they are unread, None otherwise."""
        edges = vars(self.__mem__[id])["edges"] if id in self.__mem__ else None
        return edges if isinstance(edges, StoredEdges) and edges.is_unread else None

    def _keep_edges(self, edge_rows: Iterable[EdgeRow]) -> list[Any]:
        """Keep the edges of known types that are not deleted, and return their anchors."""
        changes, anchors = self._changes, dict[UUID, Any]()
        unloaded: dict[UUID, EdgeToLoad] = {}
        for source, number, target, data in edge_rows:
            try:
                kind = type_at(self.store.kinds, number)
            except TypeError:
                continue
            id = edge_id(source, kind, target)
            has_deleted_end = not changes.deleted_nodes.keys().isdisjoint((source, target))
            if has_deleted_end or id in changes.deleted_edges:
                continue
            if id in self.__mem__:
                anchors[id] = self.__mem__[id]
            else:
                key = (self.owner or source, source, number, target)
                ends = (self.anchor_or_stub(source), self.anchor_or_stub(target))
                unloaded[id] = (key, kind, ends, data)
        loaded = edges_from(unloaded)
        for (id, (key, *_)), (anchor, row) in zip(unloaded.items(), loaded, strict=True):
            self.__mem__[id] = anchors[id] = anchor
            changes.edges[id] = (key, row)
            self._add_to_ends(anchor)
        return list(anchors.values())

    def _add_to_ends(self, edge: Any) -> None:
        for end in (edge.source.id, edge.target.id):
            self._edges_at[end].append(edge)

    def anchor_or_stub(self, id: UUID) -> Any:
        """Return a node's anchor or a stub, which jaclang replaces when it is used."""
        if (anchor := self.__mem__.get(id)) is not None:
            return anchor
        stub = NodeAnchor.__new__(NodeAnchor)
        stub.id = id
        return stub

    def _forget_edges_at(self, id: UUID) -> None:
        """Forget the loaded edges at a node, and remove them from the lists of their ends."""
        for edge in self._edges_at.pop(id, ()):
            self.__mem__.pop(edge.id, None)
            self._changes.edges.pop(edge.id, None)
            self._unlist(edge)

    def _unlist(self, edge: Any) -> None:
        """Remove an edge from the lists of its ends."""
        for end in (edge.source.id, edge.target.id):
            anchor = self.__mem__.get(end)
            edges = [] if anchor is None else vars(anchor).get("edges", [])
            if isinstance(edges, StoredEdges):
                # `_keep_edges` leaves a deleted edge out of a list that is read later.
                edges = [] if edges.is_unread else edges.data
            if edge in edges:
                edges.remove(edge)


def edge_id(source: UUID, kind: type, target: UUID) -> UUID:
    """Return the id of the edge of a type between two nodes."""
    key = source.bytes + target.bytes + edge_name(kind)
    return UUID(bytes=blake2b(key, digest_size=16).digest())


CURRENT: Final[ContextVar[RequestMemory]] = ContextVar("request_memory")
"""The current request's memory. A request uses it 40 times; jaclang's own way to it is slower,
because it asks the plugins each time."""


def owned_node(id: UUID) -> object | None:
    """Return the caller's node of that id, None if there is none."""
    nodes: list[object] = CURRENT.get().nodes([id])
    return nodes[0] if nodes else None


def nodes_at(ids: Iterable[UUID]) -> list[object]:
    """Return the caller's nodes of the ids that exist, with one read."""
    return CURRENT.get().nodes(ids)


def load_ahead(hubs: Sequence[UUID]) -> None:
    """Load nodes with their edges, with one read."""
    CURRENT.get().load(hubs)


@lru_cache(1_000)
def _warn_unreadable(id: UUID, kind: str, reason: str) -> None:
    """Log a node that cannot be read, once per process."""
    log.warning("%s %s cannot be read: %s (see `contextrender check`)", kind, id, reason)


@contextmanager
def as_current(memory: RequestMemory) -> Iterator[None]:
    """Make a memory the current request's for the block, and close it afterwards."""
    current = CURRENT.set(memory)
    caller = CALLER.set(memory.owner or SYSTEM_ROOT)
    try:
        yield
    finally:
        CALLER.reset(caller)
        CURRENT.reset(current)
        memory.close()
