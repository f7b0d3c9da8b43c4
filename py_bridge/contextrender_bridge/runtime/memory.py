"""The graph of one user in one request, whose changes are committed together or not at all.

It implements the request memory of jaclang 0.16.7 with the store. Long because jaclang's interface
reads, changes and commits in one class, and the functions below it do so for Jac's code.
"""

import logging
from collections import UserList, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from functools import lru_cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, cast, override
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
    CommittedRows,
    EdgeToLoad,
    Forbidden,
    PendingChanges,
    StoredNode,
    edge_name,
    edges_from,
    name_of,
    nodes_from,
    number_of,
    type_at,
)
from contextrender_bridge.store.base import EdgeRow, NodeRow, Store

if TYPE_CHECKING:
    from contextrender_bridge.runtime.session_lease import SessionLocks

log = logging.getLogger("contextrender")

SYSTEM_ROOT: Final = UUID(Constants.SUPER_ROOT_UUID.value)
NO_ROWS: Final = -1
"""The number of a type that was never stored."""

NodesById = dict[UUID, tuple[Any, StoredNode] | None]
"""Anchors of nodes with their rows, by id; None for a node that does not exist."""
NewEdge = tuple[object, object, object]
"""A source, an edge and a target. The ends are nodes, or ids of stored nodes."""


class StoredEdges(UserList[Any]):
    """A node's edges: first the stored edges, then new edges, which were appended since.

    The stored edges, which may be thousands, are read at the first use of the list other than
    `append`, because jaclang appends to the lists of both nodes that it connects.
    """

    def __init__(self, read: Callable[[], None]) -> None:
        """Create a list whose stored edges are not read yet.

        Its first use calls `read`, which must call `fill` for this list. `read` may also fill the
        lists of other nodes.
        """
        self._read = read
        self.is_unread = True
        self._edges: list[Any] = []

    def fill(self, edges: list[Any]) -> None:
        """Insert the stored edges before the edges that were appended, which may be among them."""
        self.is_unread = False
        ids = {edge.id for edge in edges}
        self._edges = [*edges, *(edge for edge in self._edges if edge.id not in ids)]

    @property
    def data(self) -> list[Any]:
        """All edges, as a plain list. Reads the stored edges if they are unread."""
        if self.is_unread:
            self._read()
        return self._edges

    @data.setter
    def data(self, edges: list[Any]) -> None:
        self._edges = edges

    @override
    def append(self, item: Any) -> None:
        self._edges.append(item)

    @override
    def __iter__(self) -> Iterator[Any]:
        return iter(self.data)

    # Copies and slices are plain lists.

    @override
    def __getitem__(self, i: Any) -> Any:
        return self.data[i]

    @override
    def copy(self) -> list[Any]:  # type: ignore[override]
        return self.data.copy()

    @override
    def __copy__(self) -> list[Any]:  # type: ignore[override]
        return self.data.copy()

    @override
    def __add__(self, other: Any) -> list[Any]:  # type: ignore[override]
        return self.data + list(other)

    @override
    def __radd__(self, other: Any) -> list[Any]:  # type: ignore[override]
        return list(other) + self.data

    @override
    def __mul__(self, n: int) -> list[Any]:  # type: ignore[override]
        return self.data * n

    @override
    def __rmul__(self, n: int) -> list[Any]:  # type: ignore[override]
        return self.data * n


class RequestMemory(TieredMemory):
    """The nodes and edges (jaclang's anchors) that one request has loaded or created.

    jaclang commits when a walk ends, and hides errors. Therefore `commit` does nothing here, and
    the server calls `flush` once the walker has succeeded. After a failed flush, every flush fails.
    """

    def __init__(
        self, store: Store, owner: UUID | None = None, locks: "SessionLocks | None" = None
    ) -> None:
        """Open the graph of `owner`; if it is None, only roots can be read and created."""
        super().__init__()
        self.store = store
        self.locks = locks
        self.owner = owner
        # This stack is closed when the request ends, with the request's error if it fails.
        self.on_end = ExitStack()
        self.wrote = False  # True after a flush that has written something.
        self.read_only = False  # If true, `flush` writes nothing.
        self.all_stored = False
        """True after a flush, since the store then has every loaded node and edge as it is here."""
        self._changes = PendingChanges(owner, store.kinds)
        self._edges_at: defaultdict[UUID, list[Any]] = defaultdict(list)
        """The loaded edges at each node."""
        self._failure: BaseException | None = None
        self._looked_up: set[UUID] = set()
        """The ids that were looked up in the store. If such an id is not loaded, it has no node."""
        self.root: Any = None
        """The anchor of the owner's root; None without an owner."""
        if owner is not None:
            self._add_root(owner)

    # Reading.

    def get(self, id: UUID) -> Any:
        """Return the owner's node or edge (its anchor) with this id, or None.

        jaclang's own memory would also return nodes of other users.
        """
        anchor = self.__mem__.get(id)
        return anchor if anchor is not None else self.batch_get([id]).get(id)

    def batch_get(self, ids: list[UUID]) -> dict[UUID, Any]:
        """Return the owner's anchors with these ids, by id, using one read."""
        anchors = {id: self.__mem__[id] for id in ids if id in self.__mem__}
        without_node = self._changes.deleted_nodes.keys() | self._looked_up
        unread = [id for id in ids if id not in anchors and id not in without_node]
        if unread:
            # Without an owner only roots are read. A root is its own owner.
            owner = self.owner or unread[0]
            for id in self._add_nodes(self.store.nodes(owner, unread), owner):
                anchors[id] = self.__mem__[id]
        return anchors

    def nodes(self, ids: Iterable[UUID]) -> list[Any]:
        """Return the nodes with these ids, using one read; skip ids without a node.

        The request does not look up the skipped ids again.
        """
        requested = list(ids)
        anchors = self.batch_get(requested)
        self._looked_up.update(id for id in requested if id not in anchors)
        return [anchors[id].archetype for id in requested if id in anchors]

    def load(self, ids: Sequence[UUID]) -> None:
        """Load nodes together with their edges, using one read; skip ids without a node."""
        assert self.owner is not None
        nodes, edges = self.store.nodes_with_edges(self.owner, ids)
        removed = self._changes.deleted_nodes
        new = [row for row in nodes if row[0] not in self.__mem__ and row[0] not in removed]
        new_ids = self._add_nodes(new, self.owner)
        self._looked_up.update(ids)
        self._fill_edge_lists(new_ids, edges)

    def detach(self, ids: Iterable[UUID]) -> NodesById:
        """Remove stored nodes from this memory and return them by id.

        A later request can `adopt` them. Each value is the node's anchor and row, or None for an id
        that is known to have no node.
        """
        nodes: NodesById = {}
        for id in ids:
            row = self._changes.nodes.get(id)
            if row is not None and id in self.__mem__:
                anchor = self.__mem__.pop(id)
                anchor.edges = []  # `adopt` reads them again, as other requests may change them.
                nodes[id] = anchor, row
            elif id in self._looked_up:
                nodes[id] = None
        return nodes

    def adopt(self, nodes: NodesById, session: UUID) -> bool:
        """Add the nodes that an earlier request returned from `detach`, and return True.

        Add nothing and return False if another request has written to the session since then. Each
        such request also changes the revision of the session's node, so compare the revision.
        """
        session_node = nodes.get(session)
        if session_node is None or self.owner is None:
            return False
        # Has the session been written or replaced since?
        anchor, row = session_node
        # `revision_of` returns a node's revision and its number in lists. For a session, this
        # number is `created_at`, which differs if the session was deleted and created again.
        if self.store.revision_of(self.owner, session) != (row.rev, anchor.archetype.created_at):
            return False
        # Add the nodes. Their edges are read at their first use, because they may have changed.
        existing = {id: node for id, node in nodes.items() if node is not None}
        self._looked_up.update(nodes.keys() - existing.keys())
        self.__mem__ |= {id: anchor for id, (anchor, _) in existing.items()}
        self._changes.nodes |= {id: row for id, (_, row) in existing.items()}
        read_edges = partial(self._read_edges, [*existing])
        for anchor, _ in existing.values():
            anchor.edges = StoredEdges(read_edges)
        return True

    def revision(self, id: UUID) -> int:
        """Return the revision of the row of a node that this request has read."""
        return self._changes.nodes[id].rev

    def row(self, id: UUID) -> bytes | None:
        """Return a node's uncompressed row as the store has it; None if the node was not read."""
        node = self._changes.nodes.get(id)
        return node.row if node is not None and node.row else None

    def number(self, kind: type) -> int:
        """Return the number by which a type is stored.

        A type that was never stored gets a new number. In a read-only request it gets NO_ROWS
        instead, which no row has, so that the request works even if the disk is full.
        """
        if self.read_only:
            number = self.store.kinds.find(*name_of(kind))
            return NO_ROWS if number is None else number
        return number_of(self.store.kinds, kind)

    def has(self, id: UUID) -> bool:
        """Return whether `get` finds the id."""
        return self.get(id) is not None

    def find(self, ids: Any, filter: Any = None) -> Generator[Any, None, None]:
        """Yield the owner's anchors with these ids that pass the filter."""
        requested = [ids] if isinstance(ids, UUID) else list(ids)
        for anchor in self.batch_get(requested).values():
            if filter is None or filter(anchor):
                yield anchor

    def find_one(self, ids: Any, filter: Any = None) -> Any:
        """Return the first anchor that `find` yields, or None."""
        return next(self.find(ids, filter), None)

    def get_roots(self) -> Generator[Any, None, None]:
        """Yield only the owner's root, so that no walk starts at another user's root."""
        yield from (a.archetype for a in self.__mem__.values() if isinstance(a.archetype, Root))

    # Changing.

    def put(self, anchor: Any) -> None:
        """Add an anchor to this memory.

        The id of a new edge is computed from its ends and type, so that an edge that is created
        twice exists only once.
        """
        if isinstance(anchor, EdgeAnchor) and anchor.hash == HASH_NEW and anchor.is_populated():
            anchor.id = edge_id(anchor.source.id, type(anchor.archetype), anchor.target.id)
            self._add_to_ends(anchor)
        self.__mem__[anchor.id] = anchor

    def add_edges(self, edges: Iterable[NewEdge]) -> None:
        """Add new edges and the new nodes at their ends."""
        for source, edge, target in edges:
            start, end = self._anchor_of(source), self._anchor_of(target)
            anchor = EdgeAnchor(
                archetype=cast(Any, edge),
                id=edge_id(start.id, type(edge), end.id),
                root=self.owner,
                persistent=True,
                source=start,
                target=end,
                is_undirected=False,
            )
            cast(Any, edge).__jac__ = self.__mem__[anchor.id] = anchor
            self._add_to_ends(anchor)
            for node in (start, end):
                # A node that is not loaded gets its edges from the store later.
                if "edges" in vars(node):
                    node.edges.append(anchor)

    def _anchor_of(self, node: object) -> Any:
        """Return the anchor of a node, or of the node with this id. Add a new node to this memory.

        If the node with the id is not loaded, return a stub.
        """
        if isinstance(node, UUID):
            return self.anchor_or_stub(node)
        anchor = cast(Any, node).__jac__
        if not anchor.persistent:
            anchor.persistent, anchor.root = True, self.owner
            self.__mem__[anchor.id] = anchor
        return anchor

    def delete(self, id: UUID) -> None:
        """Remove a node with its edges, or an edge. The next flush deletes the rows."""
        anchor = self.get(id)
        self.__mem__.pop(id, None)
        self._changes.delete_row(id)
        if isinstance(anchor, EdgeAnchor):
            self._remove_from_ends(anchor)
        self._forget_edges_at(id)

    def require_unchanged(self, id: UUID) -> None:
        """Let each flush raise WriteConflict if another request has changed this node meanwhile."""
        self._changes.required_unchanged.add(id)

    def delete_edges_at(self, ids: Iterable[UUID]) -> None:
        """Delete the edges of stored nodes with the next flush, without loading them."""
        self._changes.nodes_to_disconnect += ids

    def delete_unread(self, ids: Iterable[UUID]) -> None:
        """Delete stored nodes with the next flush, without loading them.

        The caller must delete their edges before, by `delete_edges_at`.
        """
        self._changes.unread_nodes_to_delete += ids

    def commit(self, anchor: object = None) -> None:
        """Do nothing, because `flush` writes."""

    def abort(self) -> None:
        """Do nothing, because nothing is written before `flush`."""

    def flush(self) -> None:
        """Write all changes so far. A read-only request writes nothing.

        Raise Forbidden if another user's data was changed, Damaged if a changed node cannot be
        read, WriteConflict if another request has changed a row, StoreUnavailable if the database
        fails. After a failed write, each further flush raises the same error.
        """
        if self.read_only:
            return
        if self._failure is not None:
            raise self._failure
        # If a walker changes another user's node, jaclang ignores the change and adds a diagnostic.
        if Jac.get_context().diagnostics:
            raise Forbidden("This would change data of another user.")
        # Write the changes as one batch, if there are any.
        collected = self._changes.collect(list(self.__mem__.values()))
        if collected is not None:
            batch, committed = collected
            try:
                self.store.write(batch)
            except BaseException as failure:
                self._failure = failure
                raise
            self._mark_written(committed)
            self.wrote = True
        self.all_stored = True

    def _mark_written(self, committed: CommittedRows) -> None:
        """Mark the written nodes and edges as stored, and forget the deleted nodes and edges."""
        for id in self._changes.nodes_to_disconnect:
            self._forget_edges_at(id)
        for id in self._changes.unread_nodes_to_delete:
            self.__mem__.pop(id, None)
        self._changes.mark_written(committed)
        for id in (*committed.nodes, *committed.edges):
            self.__mem__[id].hash = HASH_STORED

    def close(self) -> None:
        """Drop all loaded nodes and edges, with changes that were not flushed."""
        loaded = [anchor for id, anchor in self.__mem__.items() if id != SYSTEM_ROOT]
        self.__mem__.clear()
        # Break the reference cycles of nodes, edges and anchors. Otherwise the garbage collection
        # after a large request would stop the process for a quarter of a second.
        for anchor in loaded:
            vars(anchor).clear()

    def quarantine_ref(self, referrer: object, stub: object) -> None:
        """Do nothing about an edge to a missing node, because `contextrender check` finds it."""

    def is_recoverable_quarantine(self, id: UUID) -> bool:
        """Return True, so that jaclang keeps an edge to a node that cannot be loaded."""
        return True

    # Rows and anchors.

    def _add_root(self, owner: UUID) -> None:
        """Create the anchor of the owner's root without reading it, because it has no fields."""
        root = Root()
        anchor = root.__jac__
        anchor.id, anchor.persistent, anchor.hash = owner, True, HASH_STORED
        anchor.edges = StoredEdges(partial(self._read_edges, [owner]))
        self.root = self.__mem__[owner] = anchor
        self._changes.nodes[owner] = StoredNode(0, b"")

    def _add_nodes(self, node_rows: Sequence[NodeRow], owner: UUID) -> list[UUID]:
        """Add the nodes in these rows to this memory, and return their ids.

        The first use of the edges of one of these nodes reads the edges of all of them. Nodes that
        this program cannot read are not added; log them, and remember them as unreadable.
        """
        group: list[UUID] = []  # The loop below adds the ids, before any edges are used.
        read_edges = partial(self._read_edges, group)
        nodes = nodes_from(self.store.kinds, node_rows, owner)
        for (id, rev, kind, _), node in zip(node_rows, nodes, strict=True):
            if isinstance(node, Exception):
                # A later version of the program may have written the row. Do not overwrite it.
                self._changes.unreadable[id] = rev
                _warn_unreadable(id, ".".join(self.store.kinds.name(kind)), str(node))
                continue
            anchor, row = node
            anchor.edges = StoredEdges(read_edges)
            self.__mem__[id] = anchor
            self._changes.nodes[id] = StoredNode(rev, row)
            group.append(id)
        return group

    def _read_edges(self, group: list[UUID]) -> None:
        """Read the edges of the nodes in a group, except nodes whose edges are read already."""
        unread = [id for id in group if self._unread_edges(id) is not None]
        self._fill_edge_lists(unread, self.store.edges(self.owner or group[0], unread))

    def _fill_edge_lists(self, nodes: Iterable[UUID], edge_rows: Iterable[EdgeRow]) -> None:
        """Fill the unread edge lists of these nodes with the edges in the rows.

        The rows have all stored edges from and to these nodes.
        """
        edges_by_node: dict[UUID, dict[UUID, Any]] = {id: {} for id in nodes}
        for edge in self._add_edges(edge_rows):
            for end in (edge.source.id, edge.target.id):
                if end in edges_by_node:
                    edges_by_node[end][edge.id] = edge
        for id, edges in edges_by_node.items():
            if (edge_list := self._unread_edges(id)) is not None:
                edge_list.fill(list(edges.values()))

    def _unread_edges(self, id: UUID) -> StoredEdges | None:
        """Return a loaded node's edge list if it is unread, None otherwise."""
        edges = vars(self.__mem__[id])["edges"] if id in self.__mem__ else None
        return edges if isinstance(edges, StoredEdges) and edges.is_unread else None

    def _add_edges(self, edge_rows: Iterable[EdgeRow]) -> list[Any]:
        """Add the edges in these rows to this memory, and return their anchors.

        Skip edges of unknown types, deleted edges and edges of deleted nodes. Edges that are
        already loaded are returned, but not built again.
        """
        changes, anchors = self._changes, dict[UUID, Any]()  # anchors by the edges' ids
        # Select the edges to return, and of these the edges that are not loaded yet.
        unloaded: dict[UUID, EdgeToLoad] = {}
        for source, type_number, target, data in edge_rows:
            try:
                kind = type_at(self.store.kinds, type_number)
            except TypeError:
                continue
            id = edge_id(source, kind, target)
            has_deleted_end = not changes.deleted_nodes.keys().isdisjoint((source, target))
            if has_deleted_end or id in changes.deleted_edges:
                continue
            if id in self.__mem__:
                anchors[id] = self.__mem__[id]
            else:
                key = (self.owner or source, source, type_number, target)
                ends = (self.anchor_or_stub(source), self.anchor_or_stub(target))
                unloaded[id] = (key, kind, ends, data)
        # Build the edges that are not loaded yet.
        loaded = edges_from(unloaded)
        for (id, (key, *_)), (anchor, row) in zip(unloaded.items(), loaded, strict=True):
            self.__mem__[id] = anchors[id] = anchor
            changes.edges[id] = (key, row)  # The next flush compares the edge with this row.
            self._add_to_ends(anchor)
        return list(anchors.values())

    def _add_to_ends(self, edge: Any) -> None:
        """Add an edge to the loaded edges at each of its ends."""
        for end in (edge.source.id, edge.target.id):
            self._edges_at[end].append(edge)

    def anchor_or_stub(self, id: UUID) -> Any:
        """Return a node's anchor if it is loaded, otherwise a stub.

        jaclang replaces the stub by the node when it is used.
        """
        if (anchor := self.__mem__.get(id)) is not None:
            return anchor
        stub = NodeAnchor.__new__(NodeAnchor)
        stub.id = id
        return stub

    def _forget_edges_at(self, id: UUID) -> None:
        """Forget a node's loaded edges, and remove them from the edge lists of both their ends."""
        for edge in self._edges_at.pop(id, ()):
            self.__mem__.pop(edge.id, None)
            self._changes.edges.pop(edge.id, None)
            self._remove_from_ends(edge)

    def _remove_from_ends(self, edge: Any) -> None:
        """Remove an edge from the edge lists of its two ends."""
        for end in (edge.source.id, edge.target.id):
            if (anchor := self.__mem__.get(end)) is None:
                continue
            edges = vars(anchor).get("edges", [])
            if isinstance(edges, StoredEdges):
                if edges.is_unread:
                    continue  # When the list is read, `_add_edges` skips deleted edges.
                edges = edges.data
            if edge in edges:
                edges.remove(edge)


def edge_id(source: UUID, kind: type, target: UUID) -> UUID:
    """Return the id of an edge, computed from its source, its type and its target."""
    key = source.bytes + target.bytes + edge_name(kind)
    return UUID(bytes=blake2b(key, digest_size=16).digest())


CURRENT: Final[ContextVar[RequestMemory]] = ContextVar("request_memory")
"""The current request's memory. jaclang's own access to it is slower, because it calls the plugins
each time, and a request uses it about 40 times."""


def owned_node(id: UUID) -> object | None:
    """Return the caller's node with this id, or None if there is none."""
    nodes: list[object] = CURRENT.get().nodes([id])
    return nodes[0] if nodes else None


def nodes_at(ids: Iterable[UUID]) -> list[object]:
    """Return the caller's nodes with these ids, using one read; skip ids without a node."""
    return CURRENT.get().nodes(ids)


def load_ahead(ids: Sequence[UUID]) -> None:
    """Load nodes together with their edges, using one read."""
    CURRENT.get().load(ids)


def set_ids(nodes: Iterable[object], ids: Iterable[UUID]) -> None:
    """Set the ids of several nodes, as `set_id` does."""
    for node, id in zip(nodes, ids, strict=True):
        cast(Any, node).__jac__ = NodeAnchor(archetype=cast(Any, node), edges=[], id=id)


def set_id(node: object, id: UUID) -> None:
    """Set the id of a new node. It must not have edges yet, because edges are found by the id."""
    set_ids([node], [id])


def node_id(node: object) -> UUID:
    """Return a node's id."""
    return cast(UUID, cast(Any, node).__jac__.id)


def has_edge(source: object, kind: type, target: object) -> bool:
    """Return whether an edge of type `kind` leads from `source` to `target`.

    With it, callers check that a node they have found by its id belongs to `source`. Only the edges
    of the target are searched, because the source may be a root with very many edges.
    """
    start = node_id(source)
    edges = cast(Any, target).__jac__.edges
    return any(edge.source.id == start and type(edge.archetype) is kind for edge in edges)


def edges_at(node: object) -> list[tuple[str, bool, UUID, object]]:
    """Return the edges of a node, each with its type's name, direction and other end.

    Each tuple has the name of the edge's type, True if the edge is outgoing, the id of the node at
    its other end, and the edge. Outgoing edges come first, then edges are ordered by type.
    """
    id = node_id(node)

    def order(edge: Any) -> tuple[bool, str, UUID]:
        """Return the key by which an edge is sorted."""
        is_incoming = edge.source.id != id
        return is_incoming, type(edge.archetype).__name__, edge.id

    result = []
    for edge in sorted(cast(Any, node).__jac__.edges, key=order):
        is_outgoing = edge.source.id == id
        other_end = edge.target.id if is_outgoing else edge.source.id
        result.append((type(edge.archetype).__name__, is_outgoing, other_end, edge.archetype))
    return result


def archetype_fields(archetype: object) -> dict[str, object]:
    """Return the fields of a node or an edge."""
    return {name: value for name, value in vars(archetype).items() if name[0] != "_"}


def add_edges(edges: Iterable[NewEdge]) -> None:
    """Add edges, as `source +>: edge :+> target` in Jac adds one, and store the new nodes there.

    Each tuple has a source, an edge and a target. An end is a node, or the id of a stored node,
    which need not be loaded.
    """
    CURRENT.get().add_edges(edges)


@lru_cache(1_000)
def _warn_unreadable(id: UUID, kind: str, reason: str) -> None:
    """Log that a node cannot be read, once per node and process."""
    log.warning("%s %s cannot be read: %s (see `contextrender check`)", kind, id, reason)
