"""Conversion between stored rows and jaclang's nodes and edges; types by their stored names.

jaclang 0.16.7 keeps a list of edges at every node. Connecting two nodes appends to both lists,
which must not read the thousands of edges that a node may have.
Long because a node, its edges and their rows are read together.
"""

from collections import UserList
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from typing import Any, Final, get_type_hints, override
from uuid import UUID

from jaclang.jac0core.archetype import Access, EdgeAnchor, NodeAnchor, Permission, access_level_cast
from jaclang.jac0core.constructs import Root
from jaclang.runtimelib.serializer import Serializer
from pydantic import BaseModel, PydanticUserError, ValidationError, create_model

from contextrender_bridge.store import rows
from contextrender_bridge.store.base import NodeRow
from contextrender_bridge.store.kinds import TypeName, TypeNumbers
from contextrender_bridge.store.writes import EdgeKey

_TYPES: Final[dict[TypeName, type]] = {}

HASH_NEW: Final = 0
HASH_STORED: Final = 1
"""The runtime takes a hash of 0 for "not stored yet"; it does not read other values."""


def name_of(kind: type) -> TypeName:
    """Return the module and name of a type, as they are stored."""
    return kind.__module__, kind.__name__


def type_of(name: TypeName) -> type | None:
    """Return the type of a stored name, None if the program has no such type."""
    if name not in _TYPES:
        kind = Serializer._get_class(*name)
        if kind is None:
            return None
        _TYPES[name] = kind
    return _TYPES[name]


@lru_cache(1024)
def type_at(kinds: TypeNumbers, number: int) -> type:
    """Return the type with that number in a database; raise TypeError if the program lacks it."""
    if (kind := type_of(kinds.name(number))) is None:
        raise TypeError("there is no such type")
    return kind


@lru_cache(1024)
def number_of(kinds: TypeNumbers, kind: type) -> int:
    """Return the number that a database has for a type."""
    return kinds.number(*name_of(kind))


@lru_cache(1024)
def edge_name(kind: type) -> bytes:
    """Return a type's name as bytes, which are part of its edges' ids."""
    return ".".join(name_of(kind)).encode()


def encode(anchors: Iterable[Any]) -> list[bytes]:
    """Return the rows of nodes: their fields and, unless only the owner has any, their access."""
    fields_and_notes = []
    for anchor in anchors:
        access = anchor.access
        notes: dict[str, Any] = {}
        everybody_has_access = access.all.value >= 0
        if everybody_has_access or access.roots.anchors:
            granted = {str(root): level.value for root, level in access.roots.anchors.items()}
            notes["access"] = {"all": access.all.value, "roots": granted}
        fields_and_notes.append((_plain_fields(anchor.archetype), notes))
    return rows.encode_all(fields_and_notes)


def encode_edges(anchors: Iterable[Any]) -> list[bytes | None]:
    """Return the rows of edges, None for each edge without fields and notes."""
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for edge in anchors:
        notes = {"undirected": True} if edge.is_undirected else {}
        pairs.append((_plain_fields(edge.archetype), notes))
    encoded_rows = iter(rows.encode_all([pair for pair in pairs if any(pair)]))
    return [next(encoded_rows) if any(pair) else None for pair in pairs]


def _plain_fields(archetype: object) -> dict[str, Any]:
    return {name: value for name, value in vars(archetype).items() if name[0] != "_"}


def nodes_from(
    kinds: TypeNumbers, node_rows: Iterable[NodeRow], owner: UUID, read: Callable[[], None]
) -> list[tuple[Any, bytes] | Exception]:
    """Return an owner's nodes, each with its row as it would be written, or its read error.

    The first use of a node's edges calls `read`, which fills them in.
    """
    node_rows = list(node_rows)
    nodes: list[tuple[Any, bytes] | Exception] = []
    read_rows = rows.read_all([data for *_, data in node_rows])
    for (id, _, kind, _), read_row in zip(node_rows, read_rows, strict=True):
        try:
            row, values, notes = _row_or_raise(read_row)
            archetype, is_complete = build(type_at(kinds, kind), values)
        except (ValueError, TypeError) as problem:
            nodes.append(problem)
            continue
        anchor = NodeAnchor.__new__(NodeAnchor)
        vars(anchor).update(_state(id, owner, archetype, notes), edges=StoredEdges(read), version=0)
        vars(anchor)["topology_index_data"] = None
        archetype.__jac__ = anchor
        # With new fields' defaults in the row, only a changed value makes the node a changed one.
        nodes.append((anchor, row if is_complete else encode([anchor])[0]))
    return nodes


EdgeToLoad = tuple[EdgeKey, type, tuple[Any, Any], bytes | None]
"""An edge with its type, the anchors of its two nodes, and its data."""


def edges_from(edge_rows: Mapping[UUID, EdgeToLoad]) -> list[tuple[Any, bytes | None]]:
    """Return edges by their ids, each with its row as it would be written."""
    edges: list[tuple[Any, bytes | None]] = []
    read_rows = rows.read_all([data for *_, data in edge_rows.values()])
    for (id, edge_row), read_row in zip(edge_rows.items(), read_rows, strict=True):
        (owner, *_), kind, (source, target), _ = edge_row
        anchor = EdgeAnchor.__new__(EdgeAnchor)
        vars(anchor).update(source=source, target=target, is_undirected=False)
        try:
            row, values, notes = _row_or_raise(read_row)
            archetype, _ = build(kind, values)
        except (ValueError, TypeError):  # An edge is useful even without its fields.
            (archetype, _), notes = build(kind, {}), {}
            anchor.archetype = archetype
            row = encode_edges([anchor])[0] or b""  # As if stored so: the row is not overwritten.
        vars(anchor).update(_state(id, owner, archetype, notes))
        anchor.is_undirected = bool(notes.get("undirected"))
        archetype.__jac__ = anchor
        edges.append((anchor, row or None))
    return edges


def build(cls: type | None, values: Mapping[str, Any]) -> tuple[Any, bool]:
    """Return an archetype with these fields, and whether they are all the fields of its type.

    Missing fields get their defaults. Raise TypeError or ValueError if it cannot be built.
    """
    if cls is None:
        raise TypeError("there is no such type")
    archetype: Any = object.__new__(cls)
    state = vars(archetype)
    state.update(values)
    is_complete = True
    declared_fields = fields(cls) if is_dataclass(cls) else ()
    for declared in declared_fields:
        if declared.name not in state and declared.name[0] != "_":
            state[declared.name] = _default(cls, declared)
            is_complete = False
    return archetype, is_complete


def read_problem(name: TypeName, data: bytes) -> str:
    """Return why a stored row cannot be read as that type, empty if it can."""
    try:
        values = rows.read(data)[1]
        build(cls := type_of(name), values)
        if cls is not None and (model := _value_model(cls)):
            model.model_validate(values, strict=True)
    except ValidationError as invalid:
        wrong = ", ".join(sorted({str(error["loc"][0]) for error in invalid.errors()}))
        return f"the row is damaged: {wrong} has a value of another type"
    except (ValueError, TypeError) as problem:
        return str(problem)
    return ""


@lru_cache(1024)
def _value_model(cls: type) -> type[BaseModel] | None:
    """Return a model of the values in a row; None if pydantic has none for a developer's type."""
    names = [declared.name for declared in fields(cls) if declared.name[0] != "_"]
    try:
        hints = get_type_hints(cls)
        optional: Any = {name: (hints[name], None) for name in names}
        return create_model(cls.__name__, **optional)
    except (NameError, TypeError, PydanticUserError):
        return None


def _row_or_raise(row: rows.DecodedRow | ValueError) -> rows.DecodedRow:
    if isinstance(row, ValueError):
        raise row
    return row


def _default(cls: type, declared: Any) -> Any:
    if declared.default is not MISSING:
        return declared.default
    if declared.default_factory is not MISSING:
        return declared.default_factory()
    raise TypeError(f"{cls.__name__} needs the field {declared.name}")


def _state(id: UUID, owner: UUID, archetype: object, notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that anchors of nodes and of edges have in common."""
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
        "hash": HASH_STORED,
    }


Edge = Any


def forget_edges(anchors: Iterable[Any], read: Callable[[], None]) -> None:
    """Forget the edges of these nodes; `read` reads them again when they are needed."""
    for anchor in anchors:
        anchor.edges = StoredEdges(read)


class StoredEdges(UserList[Edge]):
    """A node's edges: those in the database, read at their first use, then those added since.

    Only `append` works without reading them.
    """

    def __init__(self, read: Callable[[], None]) -> None:
        """Remember how to read the edges.

        `read` calls `fill` for this node, and perhaps for others that were loaded with it. Until
        then, the list `is_unread`.
        """
        self._read = read
        self.is_unread = True
        self._edges: list[Edge] = []

    def fill(self, edges: list[Edge]) -> None:
        """Put the edges of the database before those that were added."""
        self.is_unread = False
        ids = {edge.id for edge in edges}
        self._edges = [*edges, *(edge for edge in self._edges if edge.id not in ids)]

    @property
    def data(self) -> list[Edge]:
        """Every edge, as a plain list."""
        if self.is_unread:
            self._read()
        return self._edges

    @data.setter
    def data(self, edges: list[Edge]) -> None:
        self._edges = edges

    @override
    def append(self, item: Edge) -> None:
        self._edges.append(item)

    @override
    def __iter__(self) -> Iterator[Edge]:
        return iter(self.data)

    # Copies and slices are plain lists.

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
