"""Types by their stored names, nodes and edges from rows, and rows from them.

jaclang 0.16.7 keeps a list of edges at every node. It is appended to by whoever joins the node to
another, which must not cost reading the thousands of edges it may have.
Long because a node, its edges and their rows are read together.
"""

from collections import UserList
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import Any, Final, override
from uuid import UUID

from jaclang.jac0core.archetype import Access, EdgeAnchor, NodeAnchor, Permission, access_level_cast
from jaclang.jac0core.constructs import Root
from jaclang.runtimelib.serializer import Serializer

from contextrender_bridge.store import rows
from contextrender_bridge.store.base import NodeRow
from contextrender_bridge.store.kinds import Name, TypeNumbers
from contextrender_bridge.store.writes import End

_TYPES: Final[dict[Name, type]] = {}

NEW: Final = 0
STORED: Final = 1
"""The runtime takes a hash of 0 for "not stored yet"; other values are not looked at here."""


def name_of(kind: type) -> Name:
    """Module and name of a type, as they are stored."""
    return kind.__module__, kind.__name__


def type_of(name: Name) -> type | None:
    """The type of that stored name, or None where the program has no such type."""
    if name not in _TYPES:
        found = Serializer._get_class(*name)
        if found is None:
            return None
        _TYPES[name] = found
    return _TYPES[name]


@lru_cache(1024)
def type_at(kinds: TypeNumbers, number: int) -> type:
    """The type of that number in a database. Raises TypeError where the program has none."""
    if (found := type_of(kinds.name(number))) is None:
        raise TypeError("there is no such type")
    return found


@lru_cache(1024)
def number_of(kinds: TypeNumbers, kind: type) -> int:
    """The number that a database has for a type."""
    return kinds.number(*name_of(kind))


@lru_cache(1024)
def edge_name(kind: type) -> bytes:
    """What tells the edges of a type between two nodes from others."""
    return ".".join(name_of(kind)).encode()


def encode(anchors: Iterable[Any]) -> list[bytes]:
    """The rows of nodes: their fields and, where it is not the usual one, who may see them."""
    told = []
    for anchor in anchors:
        access = anchor.access
        notes: dict[str, Any] = {}
        if access.all.value >= 0 or access.roots.anchors:
            granted = {str(root): level.value for root, level in access.roots.anchors.items()}
            notes["access"] = {"all": access.all.value, "roots": granted}
        told.append((_plain_fields(anchor.archetype), notes))
    return rows.encode_all(told)


def encode_edges(anchors: Iterable[Any]) -> list[bytes | None]:
    """The rows of edges; None for each where there is nothing to say."""
    told = [
        (_plain_fields(one.archetype), {"undirected": True} if one.is_undirected else {})
        for one in anchors
    ]
    if not (telling := [one for one in told if any(one)]):
        return [None] * len(told)
    encoded = iter(rows.encode_all(telling))
    return [next(encoded) if any(one) else None for one in told]


def _plain_fields(archetype: object) -> dict[str, Any]:
    return {name: value for name, value in vars(archetype).items() if name[0] != "_"}


def nodes_from(
    kinds: TypeNumbers, stored: Iterable[NodeRow], owner: UUID, read: Callable[[], None]
) -> list[tuple[Any, bytes] | Exception]:
    """An owner's nodes, whose edges `read` fills in, with their rows as they would be written; for
    each that is none to this program, why."""
    stored = list(stored)
    found: list[tuple[Any, bytes] | Exception] = []
    read_rows = rows.read_all([data for *_, data in stored])
    for (id, _, kind, _), told in zip(stored, read_rows, strict=True):
        try:
            row, held, notes = _told(told)
            archetype, complete = build(type_at(kinds, kind), held)
        except (ValueError, TypeError) as problem:
            found.append(problem)
            continue
        anchor = NodeAnchor.__new__(NodeAnchor)
        vars(anchor).update(_state(id, owner, archetype, notes), edges=StoredEdges(read), version=0)
        vars(anchor)["topology_index_data"] = None
        archetype.__jac__ = anchor
        found.append((anchor, row if complete else encode([anchor])[0]))
    return found


StoredEnds = tuple[End, type, tuple[Any, Any], bytes | None]
"""An edge with its type, its two nodes and its data."""


def edges_from(stored: Mapping[UUID, StoredEnds]) -> list[tuple[Any, bytes | None]]:
    """Edges by their ids, with their rows as they would be written."""
    found: list[tuple[Any, bytes | None]] = []
    read_rows = rows.read_all([data for *_, data in stored.values()])
    for (id, (end, kind, ends, _)), told in zip(stored.items(), read_rows, strict=True):
        anchor = EdgeAnchor.__new__(EdgeAnchor)
        vars(anchor).update(source=ends[0], target=ends[1], is_undirected=False)
        try:
            row, held, notes = _told(told)
            archetype, _ = build(kind, held)
        except (ValueError, TypeError):  # that it is there tells more than what it says
            (archetype, _), notes = build(kind, {}), {}
            anchor.archetype = archetype
            row = encode_edges([anchor])[0] or b""  # as if stored so: nothing is written over it
        vars(anchor).update(_state(id, end[0], archetype, notes))
        anchor.is_undirected = bool(notes.get("undirected"))
        archetype.__jac__ = anchor
        found.append((anchor, row or None))
    return found


def build(cls: type | None, held: Mapping[str, Any]) -> tuple[Any, bool]:
    """An archetype of these fields, and whether they are all there are now.

    Raises TypeError or ValueError where it cannot be made.
    """
    if cls is None:
        raise TypeError("there is no such type")
    archetype: Any = object.__new__(cls)
    state = vars(archetype)
    state.update(held)
    complete = True
    for declared in fields(cls) if hasattr(cls, "__dataclass_fields__") else ():
        if declared.name not in state and declared.name[0] != "_":
            state[declared.name] = _default(cls, declared)
            complete = False
    return archetype, complete


def unreadable(name: Name, data: bytes) -> str:
    """Why a stored row is none of that type to this program; empty where it is."""
    try:
        build(type_of(name), rows.read(data)[1])
    except (ValueError, TypeError) as problem:
        return str(problem)
    return ""


def _told(told: rows.Read | ValueError) -> rows.Read:
    if isinstance(told, ValueError):
        raise told
    return told


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


Edge = Any


def forget_edges(anchors: Iterable[Any], read: Callable[[], None]) -> None:
    """The edges of these nodes are to be read again, by `read`."""
    for anchor in anchors:
        anchor.edges = StoredEdges(read)


class StoredEdges(UserList[Edge]):
    """Edges that are in the database, and those joined since, which come last.

    Whatever is asked of it reads them first, but for `append`.
    """

    def __init__(self, read: Callable[[], None]) -> None:
        """`read` calls `fill`, of this node and perhaps of others that were loaded with it;
        `waiting` tells that it was not called yet."""
        self._read = read
        self.waiting = True
        self._known: list[Edge] = []

    def fill(self, edges: list[Edge]) -> None:
        """Takes what the database has, once."""
        self.waiting = False
        known = {edge.id for edge in edges}
        self._known = [*edges, *(edge for edge in self._known if edge.id not in known)]

    @property
    def data(self) -> list[Edge]:
        """Every edge: a plain list."""
        if self.waiting:
            self._read()
        return self._known

    @data.setter
    def data(self, edges: list[Edge]) -> None:
        self._known = edges

    @override
    def append(self, item: Edge) -> None:
        self._known.append(item)

    @override
    def __iter__(self) -> Iterator[Edge]:
        return iter(self.data)

    # What is made of it is a plain list.

    @override
    def __getitem__(self, i: Any) -> Any:
        return self.data[i]

    @override
    def copy(self) -> list[Edge]:  # type: ignore[override]
        return self.data.copy()

    @override
    def __copy__(self) -> list[Edge]:  # type: ignore[override]
        return self.data.copy()

    @override
    def __add__(self, other: Any) -> list[Edge]:  # type: ignore[override]
        return self.data + list(other)

    @override
    def __radd__(self, other: Any) -> list[Edge]:  # type: ignore[override]
        return list(other) + self.data

    @override
    def __mul__(self, n: int) -> list[Edge]:  # type: ignore[override]
        return self.data * n

    @override
    def __rmul__(self, n: int) -> list[Edge]:  # type: ignore[override]
        return self.data * n
