"""The changes of one request, as rows.

A node or edge has changed if its row differs from the row that was read. Rows are compared, because
jaclang's hashes could miss the change of a field.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from jaclang.jac0core.archetype import EdgeAnchor, NodeAnchor
from jaclang.jac0core.constructs import Root

from contextrender_bridge.base.errors import ContextRenderError, Damaged
from contextrender_bridge.runtime.archetypes import encode, encode_edges, number_of
from contextrender_bridge.store import rows
from contextrender_bridge.store.kinds import TypeNumbers
from contextrender_bridge.store.writes import EdgeKey, WriteBatch

LIST_ORDER_FIELD: Final = "created_at"
"""The field of sessions, and of other listed nodes, by which lists are ordered, newest first. The
store also has it in a column of its own."""


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
        self._collect_nodes(batch, nodes, committed)
        self._collect_edges(batch, edges, committed)
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

    def _collect_nodes(
        self, batch: WriteBatch, anchors: Iterable[Any], committed: CommittedRows
    ) -> None:
        """Add the rows of new and changed nodes to the batch.

        Also add them to `committed`, with the revisions that they have after the write.
        """
        # Compare the nodes' rows with the rows that were read.
        nodes = [anchor for anchor in anchors if self._may_be_written(anchor)]
        changed: list[tuple[Any, bytes]] = []
        for anchor, row in zip(nodes, encode(nodes), strict=True):
            if anchor.id not in self.nodes or self.nodes[anchor.id].row != row:
                changed.append((anchor, row))
        # Insert the new nodes, and update the stored ones.
        packed = rows.pack_all([row for _, row in changed])
        for (anchor, row), data in zip(changed, packed, strict=True):
            id, archetype = anchor.id, anchor.archetype
            owner = id if isinstance(archetype, Root) else anchor.root
            self._check_owner(owner)
            if (stored_node := self.nodes.get(id)) is None:
                cls: type = type(archetype)
                kind = number_of(self._kinds, cls)
                list_order = vars(archetype).get(LIST_ORDER_FIELD)  # None if it is in no list
                batch.insert_nodes.append((owner, id, kind, list_order, data))
            else:
                batch.update_nodes.append((data, owner, id, stored_node.rev))
            committed.nodes[id] = StoredNode(1 if stored_node is None else stored_node.rev + 1, row)

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

    def _collect_edges(
        self, batch: WriteBatch, anchors: Sequence[Any], committed: CommittedRows
    ) -> None:
        """Add the rows of new and changed edges to the batch and to `committed`."""
        changed: list[tuple[Any, bytes | None]] = []
        for anchor, row in zip(anchors, encode_edges(anchors), strict=True):
            if anchor.id not in self.edges or self.edges[anchor.id][1] != row:
                changed.append((anchor, row))
        # The row of an edge without fields is None, and is written as NULL.
        packed = iter(rows.pack_all([row for _, row in changed if row is not None]))
        for anchor, row in changed:
            self._check_owner(anchor.root)
            cls: type = type(anchor.archetype)
            kind = number_of(self._kinds, cls)
            key = (anchor.root, anchor.source.id, kind, anchor.target.id)
            batch.upsert_edges.append((*key, None if row is None else next(packed)))
            committed.edges[anchor.id] = (key, row)

    def _check_owner(self, owner: UUID) -> None:
        """Raise Forbidden if a row belongs to another user."""
        if self._owner is not None and owner != self._owner:
            raise Forbidden("This would change data of another user.")
