"""Types by their stored names, nodes and edges from rows, and rows from them.

jaclang 0.16.7 keeps a list of edges at every node. It is appended to by whoever joins the node to
another, which must not cost reading the thousands of edges it may have.
Long because a node, its edges and their rows are read together.
"""

from collections import UserList
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, override
from uuid import UUID

from jaclang.jac0core.archetype import Access, EdgeAnchor, NodeAnchor, Permission, access_level_cast
from jaclang.jac0core.constructs import Root
from jaclang.runtimelib.serializer import Serializer

from graph.store import rows
from graph.store.base import EdgeRow, NodeRow
from graph.store.kinds import Kinds, Name

# In a host program our modules have a parent (contextrender_bridge/own_packages.py); rows never do.
PARENT: Final = __name__.removesuffix("graph.runtime.archetypes")
_TYPES: Final[dict[Name, type]] = {}

NEW: Final = 0
STORED: Final = 1
"""The runtime takes a hash of 0 for "not stored yet"; other values are not looked at here."""


def name_of(kind: type) -> Name:
    """Module and name of a type, as they are stored."""
    return kind.__module__.removeprefix(PARENT), kind.__name__


def type_of(name: Name) -> type | None:
    """The type of that stored name, or None where the program has no such type; an alias may stand
    between."""
    if name not in _TYPES:
        module, plain = name
        ours = PARENT + module
        module = ours if f"{ours}.{plain}" in Serializer._registry else module
        found = Serializer._get_class(module, plain)
        if found is None:
            return None
        _TYPES[name] = found
    return _TYPES[name]


@lru_cache(1024)
def type_at(kinds: Kinds, number: int) -> type:
    """The type of that number in a database. Raises TypeError where the program has none."""
    if (found := type_of(kinds.name(number))) is None:
        raise TypeError("there is no such type")
    return found


@lru_cache(1024)
def number_of(kinds: Kinds, kind: type) -> int:
    """The number that a database has for a type."""
    return kinds.number(*name_of(kind))


def forget_types() -> None:
    """Look types up again, after a new alias."""
    _TYPES.clear()
    type_at.cache_clear()


def edge_id(source: UUID, kind: type, target: UUID) -> UUID:
    """The id of the edge of a type between two nodes."""
    name = ".".join(name_of(kind)).encode()
    digest = blake2b(source.bytes + target.bytes + name, digest_size=16)
    return UUID(bytes=digest.digest())


def edge_types(kinds: Kinds, stored: Iterable[EdgeRow]) -> list[tuple[UUID, type] | None]:
    """The id and the type of each of these edges; None where the program has no such type."""
    found: list[tuple[UUID, type] | None] = []
    for source, number, target, _ in stored:
        try:
            kind = type_at(kinds, number)
        except TypeError:
            found.append(None)
        else:
            found.append((edge_id(source, kind, target), kind))
    return found


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


def nodes_from(
    kinds: Kinds, stored: Iterable[NodeRow], owner: UUID, read: Callable[[], None]
) -> list[tuple[Any, bytes] | Exception]:
    """An owner's nodes, whose edges `read` fills in, with their rows as they would be written; for
    each that is none to this program, why."""
    found: list[tuple[Any, bytes] | Exception] = []
    for id, _, kind, data in stored:
        try:
            row, held, notes = rows.read(data)
            archetype, complete = build(type_at(kinds, kind), held)
        except (ValueError, TypeError) as problem:
            found.append(problem)
            continue
        anchor = NodeAnchor.__new__(NodeAnchor)
        vars(anchor).update(_state(id, owner, archetype, notes), edges=StoredEdges(read), version=0)
        vars(anchor)["topology_index_data"] = None
        archetype.__jac__ = anchor
        found.append((anchor, row if complete else encode(anchor)))
    return found


def edge_from(
    id: UUID, kind: type, owner: UUID, ends: tuple[Any, Any], data: bytes | None
) -> tuple[Any, bytes | None]:
    """An edge between two nodes, and its row as it would be written."""
    try:
        row, held, notes = (None, {}, {}) if data is None else rows.read(data)
        archetype, _ = build(kind, held)
    except (ValueError, TypeError):  # that it is there tells more than what it says
        archetype, notes = build(kind, {})[0], {}
        row = edge_row(archetype, notes)  # as if it were stored so: nothing is written over it
    anchor = EdgeAnchor.__new__(EdgeAnchor)
    vars(anchor).update(
        _state(id, owner, archetype, notes),
        source=ends[0],
        target=ends[1],
        is_undirected=bool(notes.get("undirected")),
    )
    archetype.__jac__ = anchor
    return anchor, row


def edge_row(archetype: object, notes: Mapping[str, Any]) -> bytes | None:
    """An edge's row, not compressed; None where there is nothing to say."""
    held = plain_fields(archetype)
    return rows.encode(held, notes) if held or notes else None


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


class StoredEdges(UserList[Edge]):
    """Edges that are in the database, and those joined since, which come last.

    Whatever is asked of it reads them first, but for `append`.
    """

    def __init__(self, read: Callable[[], None]) -> None:
        """`read` calls `fill`, of this node and perhaps of others that were loaded with it."""
        self._read: Callable[[], None] | None = read
        self._known: list[Edge] = []

    @property
    def waiting(self) -> bool:
        """Whether the database has not been asked yet."""
        return self._read is not None

    def fill(self, edges: list[Edge]) -> None:
        """Takes what the database has, once."""
        self._read = None
        known = {edge.id for edge in edges}
        self._known = [*edges, *(edge for edge in self._known if edge.id not in known)]

    @property
    def data(self) -> list[Edge]:
        """Every edge: a plain list."""
        if self._read is not None:
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
