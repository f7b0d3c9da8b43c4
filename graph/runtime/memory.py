"""What one request sees and writes: its own user's graph, committed once or not at all.

jaclang 0.16.7's memory of a request, over our store. What changed is told by comparing rows with
those that were read, byte by byte: no hash can miss a field.
Long because jaclang's interface reads, changes and commits in one class, over the same few tables.
"""

from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import MISSING, dataclass, fields
from functools import partial
from hashlib import blake2b
from itertools import batched
from typing import Any, Final, cast
from uuid import UUID

from contextrender_bridge.errors import ContextRenderError
from jaclang.jac0core.archetype import (
    Access,
    EdgeAnchor,
    NodeAnchor,
    Permission,
    access_level_cast,
)
from jaclang.jac0core.constant import Constants
from jaclang.jac0core.constructs import Root
from jaclang.jac0core.runtime import JacRuntimeInterface as Jac
from jaclang.runtimelib.memory import TieredMemory

from graph.runtime import rows
from graph.runtime.edges import StoredEdges
from graph.runtime.kinds import name_of
from graph.runtime.owned import session_fields
from graph.runtime.quarantine import put_aside
from graph.runtime.store import EdgeRow, NodeRow, Store
from graph.runtime.unit import WIPED_AT_ONCE, End, Unit

SYSTEM_ROOT: Final = UUID(Constants.SUPER_ROOT_UUID.value)
LISTED_BY: Final = "created_at"
"""A node with this field can be listed by it."""

NEW, STORED = 0, 1
"""The runtime takes a hash of 0 for "not stored yet"; other values are not looked at here."""


class Forbidden(ContextRenderError):
    """Something of another user's would be changed."""

    code = "forbidden"
    status = 403


@dataclass(slots=True)
class _Node:
    """A node's row as it is stored, not compressed."""

    rev: int
    row: bytes


class RequestMemory(TieredMemory):
    """The anchors of one request.

    The runtime commits when a walk ends and swallows what goes wrong, so `commit` does nothing
    here: `flush` writes, once the reply is known to be a success. A failed flush stays failed.
    """

    def __init__(self, store: Store, owner: UUID | None = None) -> None:
        """Sees the nodes of `owner`; without one, roots alone."""
        super().__init__()
        self.store = store
        self.owner = owner
        # Left when the request ends, with its failure if it has one.
        self.held = ExitStack()
        self.wrote = False
        self._nodes: dict[UUID, _Node] = {}
        self._edges: dict[UUID, tuple[End, bytes | None]] = {}
        self._removed: dict[UUID, int] = {}
        self._parted: dict[UUID, End] = {}
        self._fences: set[UUID] = set()
        self._wiped: list[UUID] = []
        self._at: defaultdict[UUID, list[Any]] = defaultdict(list)
        self._failure: BaseException | None = None
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
        missing = [id for id in ids if id not in found and id not in self._removed]
        if missing:
            group: list[UUID] = []
            owner = self.owner or missing[0]
            for row in self.store.nodes(owner, missing):
                if (anchor := self._take(row, owner, group)) is not None:
                    found[row[0]] = anchor
        return found

    def load(self, ids: Sequence[UUID], hubs: Sequence[UUID]) -> None:
        """In one read, some nodes, and those of `hubs` with their edges."""
        assert self.owner is not None
        group: list[UUID] = []
        nodes, edges = self.store.nodes_with_edges(self.owner, [*hubs, *ids], hubs)
        for row in nodes:
            if row[0] not in self.__mem__ and row[0] not in self._removed:
                self._take(row, self.owner, group)
        self._spread([id for id in group if id in hubs], edges)

    def row(self, id: UUID) -> bytes | None:
        """A node's committed row, not compressed, where this request has read it."""
        known = self._nodes.get(id)
        return known.row if known is not None and known.row else None

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

    def delete(self, id: UUID) -> None:
        """Forget an anchor; its row goes with the next flush, and a node's edges with it."""
        anchor = self.get(id)
        self.__mem__.pop(id, None)
        if id in self._nodes:
            self._removed[id] = self._nodes.pop(id).rev
        if id in self._edges:
            self._parted[id] = self._edges.pop(id)[0]
        if isinstance(anchor, EdgeAnchor):
            self._unlist(anchor)
        for edge in self._at.pop(id, ()):
            self.__mem__.pop(edge.id, None)
            self._edges.pop(edge.id, None)
            self._unlist(edge)

    def fence(self, id: UUID) -> None:
        """What is written must find this node as it was read, if it was read."""
        self._fences.add(id)

    def wipe(self, ids: Iterable[UUID]) -> None:
        """Stored nodes that go with the next flush, unseen, with their edges."""
        self._wiped += ids

    def commit(self, anchor: object = None) -> None:
        """Wait for `flush`."""

    def abort(self) -> None:
        """Nothing was written, so nothing is to be undone."""

    def flush(self) -> None:
        """Write everything changed so far. Raises Raced, Forbidden or StoreUnavailable."""
        if self._failure is not None:
            raise self._failure
        if Jac.get_context().diagnostics:
            raise Forbidden("This would change data of another user.")
        unit = Unit()
        nodes, edges = self._collect(unit)
        if not unit:
            return
        try:
            self.store.write(unit)
        except BaseException as failure:
            self._failure = failure
            raise
        self._nodes |= nodes
        self._edges |= edges
        self._removed.clear()
        self._parted.clear()
        for id in self._wiped:
            self._nodes.pop(id, None)
            self.__mem__.pop(id, None)
        self._wiped.clear()
        for id in (*nodes, *edges):
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
        """An edge whose end does not load stays as it is: `jac db fsck` tells of it."""

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
        self.__mem__[owner] = anchor
        self._nodes[owner] = _Node(0, b"")

    def _take(self, stored: NodeRow, owner: UUID, group: list[UUID]) -> Any:
        id, rev, kind, data = stored
        try:
            row = rows.unpack(data)
            archetype, notes, complete = build(self.store.kinds.cls(kind), row)
        except (ValueError, TypeError) as problem:
            put_aside(self.store, owner, id, str(problem))
            return None
        anchor = NodeAnchor.__new__(NodeAnchor)
        group.append(id)
        edges = StoredEdges(partial(self._fill, group))
        vars(anchor).update(_state(id, owner, archetype, notes), edges=edges, version=0)
        vars(anchor)["topology_index_data"] = None
        archetype.__jac__ = anchor
        self._nodes[id] = _Node(rev, row if complete else encode(anchor))
        self.__mem__[id] = anchor
        return anchor

    def _fill(self, group: list[UUID]) -> None:
        """Reads the edges of every node of a group that waits for them."""
        waiting = [id for id in group if self._waits(id) is not None]
        self._spread(waiting, self.store.edges(self.owner or group[0], waiting))

    def _spread(self, waiting: Iterable[UUID], stored: Iterable[EdgeRow]) -> None:
        """Gives each of these nodes those of the stored edges that are its own."""
        lists: dict[UUID, dict[UUID, Any]] = {id: {} for id in waiting}
        for source, kind, target, data in stored:
            anchor = self._take_edge(self.owner or source, source, kind, target, data)
            if anchor is not None:
                for end in (source, target):
                    if end in lists:
                        lists[end][anchor.id] = anchor
        for id, edges in lists.items():
            if (list_ := self._waits(id)) is not None:
                list_.fill(list(edges.values()))

    def _waits(self, id: UUID) -> StoredEdges | None:
        """A node's edges, where they are yet to be read."""
        edges = vars(self.__mem__[id])["edges"] if id in self.__mem__ else None
        return edges if isinstance(edges, StoredEdges) and edges.waiting else None

    def _take_edge(
        self, owner: UUID, source: UUID, kind: int, target: UUID, data: bytes | None
    ) -> Any:
        cls = self.store.kinds.cls(kind)
        if cls is None or source in self._removed or target in self._removed:
            return None
        id = edge_id(source, cls, target)
        if id in self._parted:
            return None
        if (known := self.__mem__.get(id)) is not None:
            return known
        try:
            row = None if data is None else rows.unpack(data)
            archetype, notes, _ = build(cls, row or rows.encode({}))
        except (ValueError, TypeError):  # that it is there tells more than what it says
            row = None
            archetype, notes, _ = build(cls, rows.encode({}))
        anchor = EdgeAnchor.__new__(EdgeAnchor)
        vars(anchor).update(
            _state(id, owner, archetype, notes),
            source=self._end(source),
            target=self._end(target),
            is_undirected=bool(notes.get("undirected")),
        )
        archetype.__jac__ = anchor
        self.__mem__[id] = anchor
        self._edges[id] = ((owner, source, kind, target), row)
        self._note_ends(anchor)
        return anchor

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

    def _unlist(self, edge: Any) -> None:
        """Takes an edge off its ends' lists."""
        for end in (edge.source.id, edge.target.id):
            anchor = self.__mem__.get(end)
            edges = [] if anchor is None else vars(anchor).get("edges", [])
            # Edges that are yet to be read are left out then.
            if not (isinstance(edges, StoredEdges) and edges.waiting) and edge in edges:
                edges.remove(edge)

    def _collect(
        self, unit: Unit
    ) -> tuple[dict[UUID, _Node], dict[UUID, tuple[End, bytes | None]]]:
        """What to write; and the rows as they will be then."""
        nodes: dict[UUID, _Node] = {}
        edges: dict[UUID, tuple[End, bytes | None]] = {}
        for anchor in list(self.__mem__.values()):
            if not vars(anchor).get("persistent") or not anchor.is_populated():
                continue
            if isinstance(anchor, EdgeAnchor):
                self._collect_edge(unit, anchor, edges)
            elif isinstance(anchor, NodeAnchor):
                self._collect_node(unit, anchor, nodes)
        owner = self.owner
        unit.remove += [(owner or id, id, rev) for id, rev in self._removed.items()]
        unit.part += self._parted.values()
        if self._wiped and owner is not None:
            unit.wipe.append((owner, tuple(self._wiped)))
        for id in self._fences & self._nodes.keys() - nodes.keys() if unit else ():
            assert owner is not None
            held = self._nodes[id]
            unit.fence.append((owner, id, held.rev))
            nodes[id] = _Node(held.rev + 1, held.row)
        return nodes, edges

    def _collect_node(self, unit: Unit, anchor: Any, nodes: dict[UUID, _Node]) -> None:
        id, archetype, known = anchor.id, anchor.archetype, self._nodes.get(anchor.id)
        is_root = isinstance(archetype, Root)
        if known is None and not is_root and not anchor.edges:
            return  # what nothing leads to is garbage, not data
        if known is not None and is_root:
            return
        row = encode(anchor)
        if known is not None and known.row == row:
            return
        owner = id if is_root else anchor.root
        if self.owner is not None and owner != self.owner:
            raise Forbidden("This would change data of another user.")
        listed = vars(archetype).get(LISTED_BY)
        if known is None:
            kind = self.store.kinds.number(type(archetype))
            unit.insert.append((owner, id, kind, listed, rows.pack(row)))
        else:
            unit.update.append((listed, rows.pack(row), owner, id, known.rev))
        nodes[id] = _Node(1 if known is None else known.rev + 1, row)

    def _collect_edge(
        self, unit: Unit, anchor: Any, edges: dict[UUID, tuple[End, bytes | None]]
    ) -> None:
        notes = {"undirected": True} if anchor.is_undirected else {}
        held = plain_fields(anchor.archetype)
        row = rows.encode(held, notes) if held or notes else None
        known = self._edges.get(anchor.id)
        if known is not None and known[1] == row:
            return
        if self.owner is not None and anchor.root != self.owner:
            raise Forbidden("This would change data of another user.")
        kind = self.store.kinds.number(type(anchor.archetype))
        end = (anchor.root, anchor.source.id, kind, anchor.target.id)
        unit.join.append((*end, row and rows.pack(row)))
        edges[anchor.id] = (end, row)


def edge_id(source: UUID, kind: type, target: UUID) -> UUID:
    """The id of the edge of a type between two nodes."""
    name = ".".join(name_of(kind)).encode()
    digest = blake2b(source.bytes + target.bytes + name, digest_size=16)
    return UUID(bytes=digest.digest())


def encode(anchor: Any) -> bytes:
    """The row of an anchor's fields and, where it is not the usual one, of who may see it."""
    access = anchor.access
    notes: dict[str, Any] = {}
    if access.all.value >= 0 or access.roots.anchors:
        granted = {str(root): level.value for root, level in access.roots.anchors.items()}
        notes["access"] = {"all": access.all.value, "roots": granted}
    return rows.encode(plain_fields(anchor.archetype), notes)


def plain_fields(archetype: object) -> dict[str, Any]:
    """The fields that are stored."""
    return {name: value for name, value in vars(archetype).items() if name[0] != "_"}


def build(cls: type | None, row: bytes) -> tuple[Any, dict[str, Any], bool]:
    """An archetype of that row, what else it tells, and whether it has every field there is now.

    Raises TypeError or ValueError where it cannot be made.
    """
    if cls is None:
        raise TypeError("there is no such type")
    held, notes = rows.parse(row)
    archetype: Any = object.__new__(cls)
    state = vars(archetype)
    state.update(held)
    complete = True
    for declared in fields(cls) if hasattr(cls, "__dataclass_fields__") else ():
        if declared.name not in state and declared.name[0] != "_":
            state[declared.name] = _default(cls, declared)
            complete = False
    return archetype, notes, complete


def _default(cls: type, declared: Any) -> Any:
    if declared.default is not MISSING:
        return declared.default
    if declared.default_factory is not MISSING:
        return declared.default_factory()
    raise TypeError(f"{cls.__name__} needs the field {declared.name}")


def _state(id: UUID, owner: UUID, archetype: object, notes: Mapping[str, Any]) -> dict[str, Any]:
    """What every anchor holds."""
    access = Permission()
    if granted := notes.get("access"):
        access.all = access_level_cast(granted["all"])
        access.roots = Access(
            anchors={root: access_level_cast(level) for root, level in granted["roots"].items()}
        )
    return {
        "id": id,
        "root": None if isinstance(archetype, Root) else owner,
        "archetype": archetype,
        "access": access,
        "persistent": True,
        "hash": STORED,
    }


def fetch_fields(ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The committed fields of the caller's nodes, by id as it was given; ids that are unknown, or
    whose rows cannot be read, are left out.

    Building no archetypes, it reads ten times faster than loading the nodes. What this request
    changed is visible after `commit_now`; nodes that it has loaded are not read again.
    """
    by_id = {UUID(id): id for id in ids}
    memory = request_memory()
    assert memory.owner is not None
    loaded = {id: row for id in by_id if (row := memory.row(id)) is not None}
    found = {by_id[id]: rows.parse(row)[0] for id, row in loaded.items()}
    for id, _, _, data in memory.store.nodes(memory.owner, by_id.keys() - loaded.keys()):
        with suppress(ValueError):
            found[by_id[id]] = rows.parse(rows.unpack(data))[0]
    return found


def fetch_edges(nodes: Iterable[UUID], kind: type) -> list[tuple[UUID, UUID, dict[str, Any]]]:
    """The committed edges of a type out of the caller's nodes: source, target, fields.

    For many nodes 25 to 40 times faster than hopping from each. Raises ValueError for one that
    cannot be read.
    """
    memory = request_memory()
    assert memory.owner is not None
    stored = memory.store.edges_out(memory.owner, nodes, memory.store.kinds.number(kind))
    return [
        (source, target, {} if data is None else rows.parse(rows.unpack(data))[0])
        for source, target, data in stored
    ]


def owned_sessions() -> list[list[Any]]:
    """What each of the caller's sessions has counted (`nodes.session.Session.spent`)."""
    memory = request_memory()
    assert memory.owner is not None
    return [fields.get("spent", []) for fields in session_fields(memory.store, memory.owner)]


def commit_now() -> None:
    """Write this request's changes now, inside whatever lock the walker holds; raises on failure.

    A walker that fails later keeps what was written here.
    """
    request_memory().flush()


def wipe(mark: UUID, ids: Iterable[UUID]) -> None:
    """Deletes the caller's nodes unseen, with their edges, in slices: others write in between.

    Each slice finds the node `mark` as it was, so that nothing is deleted that came after it went.
    """
    memory = request_memory()
    memory.fence(mark)
    for some in batched(ids, WIPED_AT_ONCE):
        memory.wipe(some)
        memory.flush()


def request_memory() -> RequestMemory:
    """The current request's."""
    return cast(RequestMemory, Jac.get_context().mem)


def hold_until_done(lock: Any) -> None:
    """Takes a lock that the current request gives back when it ends."""
    request_memory().held.enter_context(lock)
