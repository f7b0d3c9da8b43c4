"""The rows of nodes and edges: their conversion, the names of their types, and a request's changes.

Long because nodes, edges and their rows are read, compared and written together. A node or edge has
changed if its row differs from the row that was read. Rows are compared, because jaclang's hashes
could miss the change of a field.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import lru_cache
from typing import Any, Final, get_type_hints
from uuid import UUID

from jaclang.jac0core.archetype import Access, EdgeAnchor, NodeAnchor, Permission, access_level_cast
from jaclang.jac0core.constructs import Root
from jaclang.runtimelib.serializer import Serializer
from pydantic import BaseModel, PydanticUserError, ValidationError, create_model

from contextrender_bridge.base.errors import ContextRenderError, Damaged
from contextrender_bridge.store import rows
from contextrender_bridge.store.base import NodeRow
from contextrender_bridge.store.kinds import TypeName, TypeNumbers
from contextrender_bridge.store.writes import EdgeKey, WriteBatch

_TYPES: Final[dict[TypeName, type]] = {}

LARGEST_NUMBER: Final = 2**53
"""The largest integer in an undamaged row. Sums of larger ones could exceed 64 bits."""
LIST_ORDER_FIELD: Final = "created_at"
"""The field of sessions, and of other listed nodes, by which lists are ordered, newest first. The
store also has it in a column of its own."""
HASH_NEW: Final = 0
HASH_STORED: Final = 1
"""The hash of stored anchors. jaclang only tests whether a hash is 0, as in new anchors."""


def name_of(kind: type) -> TypeName:
    """Return the module and name of a type, by which it is stored."""
    return kind.__module__, kind.__name__


def type_of(name: TypeName) -> type | None:
    """Return the type with a stored name, or None if the program has no such type."""
    if name not in _TYPES:
        kind = Serializer._get_class(*name)
        if kind is None:
            return None
        _TYPES[name] = kind
    return _TYPES[name]


@lru_cache(1024)
def type_at(kinds: TypeNumbers, number: int) -> type:
    """Return the type with this number in a database. Raise TypeError if the program lacks it."""
    if (kind := type_of(kinds.name(number))) is None:
        raise TypeError("there is no such type")
    return kind


@lru_cache(1024)
def number_of(kinds: TypeNumbers, kind: type) -> int:
    """Return the number that a database has for a type."""
    return kinds.number(*name_of(kind))


@lru_cache(1024)
def edge_name(kind: type) -> bytes:
    """Return the name of a type of edges as bytes, from which the edges' ids are computed."""
    return ".".join(name_of(kind)).encode()


def encode(anchors: Iterable[Any]) -> list[bytes | None]:
    """Return the uncompressed row of each node and edge.

    A row has the fields. If other users have access rights to a node, its row also has these
    rights, as metadata. An edge without fields and metadata has no row, so return None for it.
    """
    contents = []
    for anchor in anchors:
        content = _plain_fields(anchor.archetype), _metadata(anchor)
        contents.append(content if isinstance(anchor, NodeAnchor) or any(content) else None)
    return rows.encode_all(contents)


def _metadata(anchor: Any) -> dict[str, Any]:
    """Return the values to store with a node's or edge's fields that are no fields."""
    if isinstance(anchor, EdgeAnchor):
        return {"undirected": True} if anchor.is_undirected else {}
    access = anchor.access
    everybody_has_access = access.all.value >= 0
    if not everybody_has_access and not access.roots.anchors:
        return {}
    granted = {str(root): level.value for root, level in access.roots.anchors.items()}
    return {"access": {"all": access.all.value, "roots": granted}}


def _plain_fields(archetype: object) -> dict[str, Any]:
    """Return the fields to store. Names that begin with `_` are jaclang's own attributes."""
    return {name: value for name, value in vars(archetype).items() if name[0] != "_"}


def nodes_from(
    kinds: TypeNumbers, node_rows: Iterable[NodeRow], owner: UUID
) -> list[tuple[Any, bytes] | Exception]:
    """Build an owner's nodes from their stored rows, without their edges.

    Return, for each node, its anchor and its uncompressed row, or the error if its row cannot be
    read.
    """
    node_rows = list(node_rows)
    nodes: list[tuple[Any, bytes] | Exception] = []
    read_rows = rows.read_all([data for *_, data in node_rows])
    for (id, _, kind, _), read_row in zip(node_rows, read_rows, strict=True):
        try:
            row, values, metadata = _row_or_raise(read_row)
            archetype, is_complete = build(type_at(kinds, kind), values)
        except (ValueError, TypeError) as problem:
            nodes.append(problem)
            continue
        # The constructor would make a new node, so set the attributes without it.
        anchor = NodeAnchor.__new__(NodeAnchor)
        vars(anchor).update(_state(id, owner, archetype, metadata))
        vars(anchor).update(version=0, topology_index_data=None)
        archetype.__jac__ = anchor
        # The row of an older version lacks newer fields, which get their defaults in the node.
        # Return a row with these defaults; otherwise the node would count as changed.
        nodes.append((anchor, row if is_complete else encode([anchor])[0] or b""))
    return nodes


EdgeToLoad = tuple[EdgeKey, type, tuple[Any, Any], bytes | None]
"""An edge's key, its type, the anchors of its two nodes, and its stored row or None."""


def edges_from(edge_rows: Mapping[UUID, EdgeToLoad]) -> list[tuple[Any, bytes | None]]:
    """Build edges from their stored rows. `edge_rows` has the rows by the edges' ids.

    Return, for each edge, its anchor and its uncompressed row, or None if it has no row. An edge
    whose row cannot be read gets default fields, and is returned with the row of these. A flush
    compares the edge with the returned row, so the store keeps the unreadable row unless the
    program changes the edge.
    """
    edges: list[tuple[Any, bytes | None]] = []
    read_rows = rows.read_all([data for *_, data in edge_rows.values()])
    for (id, edge_row), read_row in zip(edge_rows.items(), read_rows, strict=True):
        (owner, *_), kind, (source, target), _ = edge_row
        # The constructor would make a new edge, so set the attributes without it.
        anchor = EdgeAnchor.__new__(EdgeAnchor)
        vars(anchor).update(source=source, target=target, is_undirected=False)
        try:
            row, values, metadata = _row_or_raise(read_row)
            archetype, _ = build(kind, values)
        except (ValueError, TypeError):  # Even without its fields an edge is useful.
            archetype, _ = build(kind, {})
            metadata = {}
            anchor.archetype = archetype
            row = encode([anchor])[0] or b""
        vars(anchor).update(_state(id, owner, archetype, metadata))
        anchor.is_undirected = bool(metadata.get("undirected"))
        archetype.__jac__ = anchor
        edges.append((anchor, row or None))
    return edges


def build(cls: type | None, values: Mapping[str, Any]) -> tuple[Any, bool]:
    """Return a new object of type `cls` with these values as fields, and whether none was missing.

    A field without a value gets its default. Raise TypeError if `cls` is None, or if a field has
    neither a value nor a default.
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
    """Return why a stored row cannot be read as this type; empty if it can."""
    try:
        values = rows.read_fields(data)
        cls = type_of(name)
        build(cls, values)
    except (ValueError, TypeError) as problem:
        return str(problem)
    return "" if cls is None else value_problem(cls, values)


def value_problem(cls: type, values: Mapping[str, Any]) -> str:
    """Return why these values cannot be the fields of a type; empty if they can."""
    if not _has_possible_numbers(values):
        return "the row is damaged: a number is too large"
    try:
        if model := _value_model(cls):
            model.model_validate(values, strict=True)
    except ValidationError as invalid:
        wrong = ", ".join(sorted({str(error["loc"][0]) for error in invalid.errors()}))
        return f"the row is damaged: {wrong} has a value of another type"
    return ""


def _has_possible_numbers(value: object) -> bool:
    """Return whether no integer in a value of a row is larger than LARGEST_NUMBER."""
    if isinstance(value, int):
        return abs(value) <= LARGEST_NUMBER
    if isinstance(value, dict):
        return all(map(_has_possible_numbers, value.values()))
    if isinstance(value, list):
        return all(map(_has_possible_numbers, value))
    return True


@lru_cache(1024)
def _value_model(cls: type) -> type[BaseModel] | None:
    """Return a pydantic model that checks the types of a row's values; None if there can be none.

    Every field may be missing, because rows of older versions lack newer fields.
    """
    names = [declared.name for declared in fields(cls) if declared.name[0] != "_"]
    try:
        hints = get_type_hints(cls)
        optional: Any = {name: (hints[name], None) for name in names}
        return create_model(cls.__name__, **optional)
    except (NameError, TypeError, PydanticUserError):
        return None


def _row_or_raise(row: rows.DecodedRow | ValueError) -> rows.DecodedRow:
    """Return a decoded row, or raise the error that it has instead."""
    if isinstance(row, ValueError):
        raise row
    return row


def _default(cls: type, declared: Any) -> Any:
    """Return the default value of a declared field of `cls`.

    Raise TypeError if it has none.
    """
    if declared.default is not MISSING:
        return declared.default
    if declared.default_factory is not MISSING:
        return declared.default_factory()
    raise TypeError(f"{cls.__name__} needs the field {declared.name}")


def _state(id: UUID, owner: UUID, archetype: object, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that the anchor of a stored node or edge needs, by name.

    `metadata` may have access rights of other users.
    """
    # Without metadata, nobody but the owner has access.
    access = Permission()
    if granted := metadata.get("access"):
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


class Forbidden(ContextRenderError):
    """Raised when a request would change another user's data."""

    code = "forbidden"
    status = 403


@dataclass(slots=True)
class StoredNode:
    """A stored node's revision and its uncompressed row."""

    rev: int
    row: bytes


StoredEdge = tuple[EdgeKey, bytes | None]


@dataclass(slots=True)
class CommittedRows:
    """The changed rows in their state after a batch is written."""

    nodes: dict[UUID, StoredNode] = field(default_factory=dict)
    edges: dict[UUID, StoredEdge] = field(default_factory=dict)


class PendingChanges:
    """The rows that a request has read, and the deletions of its next write.

    - `nodes`, `edges`: the rows that were read, by id.
    - `deleted_nodes`: nodes to delete, with the revisions that were read.
    - `deleted_edges`: edges to delete.
    - `unreadable`: the revisions of nodes that this program cannot read and must not overwrite.
    - `required_unchanged`: nodes that no other request may have changed when this one writes.
    - `nodes_to_disconnect`: nodes whose edges are deleted without reading the edges.
    - `unread_nodes_to_delete`: nodes that are deleted without reading them.
    """

    def __init__(self, owner: UUID | None, kinds: TypeNumbers) -> None:
        """Begin without rows. `owner` is the user; None if only roots may change."""
        self._owner = owner
        self._kinds = kinds
        self.nodes: dict[UUID, StoredNode] = {}
        self.edges: dict[UUID, StoredEdge] = {}
        self.deleted_nodes: dict[UUID, int] = {}
        self.deleted_edges: dict[UUID, EdgeKey] = {}
        self.unreadable: dict[UUID, int] = {}
        self.required_unchanged: set[UUID] = set()
        self.nodes_to_disconnect: list[UUID] = []
        self.unread_nodes_to_delete: list[UUID] = []

    def delete_row(self, id: UUID) -> None:
        """Delete the row of a node or an edge with the next batch, if it has a row."""
        if id in self.nodes:
            self.deleted_nodes[id] = self.nodes.pop(id).rev
        elif id in self.unreadable:
            self.deleted_nodes[id] = self.unreadable.pop(id)
        if id in self.edges:
            self.deleted_edges[id] = self.edges.pop(id)[0]

    def collect(self, anchors: Iterable[Any]) -> tuple[WriteBatch, CommittedRows] | None:
        """Return the batch to write, and the rows as they are after the write.

        Return None if nothing has changed. `anchors` are all nodes and edges that the request has
        loaded or created. Raise Forbidden if a changed node or edge is another user's, Damaged if
        it would replace an unreadable node.
        """
        batch, committed = WriteBatch(), CommittedRows()
        # Skip anchors that are not to be stored, and stubs of nodes that are not loaded.
        persistent = [
            anchor for anchor in anchors if vars(anchor).get("persistent") and anchor.is_populated()
        ]
        # Add new and changed nodes and edges to the batch.
        nodes = [anchor for anchor in persistent if isinstance(anchor, NodeAnchor)]
        edges = [anchor for anchor in persistent if isinstance(anchor, EdgeAnchor)]
        self._collect_changed([*filter(self._may_be_written, nodes), *edges], batch, committed)
        deletes_read_rows = self.deleted_nodes or self.deleted_edges
        deletes_unread_rows = self.nodes_to_disconnect or self.unread_nodes_to_delete
        has_changes = committed.nodes or committed.edges
        if not (has_changes or deletes_read_rows or deletes_unread_rows):
            return None
        # A write also has the deletions, and the checks of nodes that must be unchanged.
        self._collect_deletions(batch)
        self._collect_revision_checks(batch, committed)
        return batch, committed

    def mark_written(self, committed: CommittedRows) -> None:
        """Add the rows that were written to those that were read, and forget the deletions."""
        self.nodes |= committed.nodes
        self.edges |= committed.edges
        # `delete_row` has already removed the other deleted rows.
        for id in self.unread_nodes_to_delete:
            self.nodes.pop(id, None)
        self.deleted_nodes.clear()
        self.deleted_edges.clear()
        self.nodes_to_disconnect.clear()
        self.unread_nodes_to_delete.clear()

    def _collect_deletions(self, batch: WriteBatch) -> None:
        """Add the deletions to the batch. Without an owner, each node is a root and owns itself."""
        owner = self._owner
        batch.delete_nodes += [(owner or id, id, rev) for id, rev in self.deleted_nodes.items()]
        batch.delete_edges += self.deleted_edges.values()
        if owner is not None and self.nodes_to_disconnect:
            batch.delete_edges_at.append((owner, tuple(self.nodes_to_disconnect)))
        if owner is not None and self.unread_nodes_to_delete:
            batch.delete_unchecked.append((owner, tuple(self.unread_nodes_to_delete)))

    def _collect_revision_checks(self, batch: WriteBatch, committed: CommittedRows) -> None:
        """Increment the revisions of nodes that must be unchanged, so that the write checks them.

        A node that this request changes is not added, because its update checks the revision.
        """
        for id in self.required_unchanged & self.nodes.keys() - committed.nodes.keys():
            assert self._owner is not None
            node = self.nodes[id]
            batch.increment_revisions.append((self._owner, id, node.rev))
            committed.nodes[id] = StoredNode(node.rev + 1, node.row)

    def _collect_changed(
        self, anchors: Sequence[Any], batch: WriteBatch, committed: CommittedRows
    ) -> None:
        """Add the rows of new and changed nodes and edges to the batch.

        Also add them to `committed`, with the revisions that the nodes have after the write.
        """
        # Compare the rows with the rows that were read.
        changed = [
            (anchor, row)
            for anchor, row in zip(anchors, encode(anchors), strict=True)
            if self._is_changed(anchor.id, row)
        ]
        packed = rows.pack_all([row for _, row in changed])
        for (anchor, row), data in zip(changed, packed, strict=True):
            owner = anchor.id if isinstance(anchor.archetype, Root) else anchor.root
            if self._owner is not None and owner != self._owner:
                raise Forbidden("This would change data of another user.")
            cls: type = type(anchor.archetype)
            kind = number_of(self._kinds, cls)
            if isinstance(anchor, EdgeAnchor):
                key = (owner, anchor.source.id, kind, anchor.target.id)
                batch.upsert_edges.append((*key, data))
                committed.edges[anchor.id] = (key, row)
                continue
            # Insert a new node, and update a stored one.
            assert row is not None and data is not None
            id = anchor.id
            if (stored_node := self.nodes.get(id)) is None:
                list_order = vars(anchor.archetype).get(LIST_ORDER_FIELD)  # None if in no list
                batch.insert_nodes.append((owner, id, kind, list_order, data))
            else:
                batch.update_nodes.append((data, owner, id, stored_node.rev))
            committed.nodes[id] = StoredNode(1 if stored_node is None else stored_node.rev + 1, row)

    def _is_changed(self, id: UUID, row: bytes | None) -> bool:
        """Return whether a node or edge is new, or its row differs from the row that was read."""
        if id in self.edges:
            return self.edges[id][1] != row
        return id not in self.nodes or self.nodes[id].row != row

    def _may_be_written(self, anchor: Any) -> bool:
        """Return whether a node is written if it is new or changed.

        Raise Damaged if the store has a row of the node that cannot be read.
        """
        is_stored = anchor.id in self.nodes
        if isinstance(anchor.archetype, Root):
            return not is_stored  # A root has no fields that could change.
        if not is_stored and not anchor.edges:
            return False  # A new node without edges cannot be reached, so it is not stored.
        if anchor.id in self.unreadable:
            raise Damaged(
                "a part of this session cannot be read, and is not overwritten: run "
                "`contextrender check --repair`, which moves it to quarantine"
            )
        return True
