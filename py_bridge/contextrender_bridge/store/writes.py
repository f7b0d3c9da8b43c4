"""Batches of rows to write, their SQL statements, and the errors of a write.

The statements have `?` for values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from contextrender_bridge.base.errors import ServerError

REFUSED: Final = "The store did not take the change; nothing was written."
BY_TARGET = "/* by target */"
"""A mark after `FROM edges`, by which SQLite uses the index of targets. Without the mark it would
read all edges of the owner."""

INSERT_NODE = (
    "INSERT INTO nodes (owner, id, rev, kind, listed, data) VALUES (?, ?, 1, ?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)
UPDATE_NODE = "UPDATE nodes SET rev = rev + 1, data = ? WHERE owner = ? AND id = ? AND rev = ?"
INCREMENT_REVISION = "UPDATE nodes SET rev = rev + 1 WHERE owner = ? AND id = ? AND rev = ?"
DELETE_NODE = "DELETE FROM nodes WHERE owner = ? AND id = ? AND rev = ?"
UPSERT_EDGE = (
    "INSERT INTO edges (owner, source, kind, target, data) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (owner, source, kind, target) DO UPDATE SET data = excluded.data"
)
DELETE_EDGE = "DELETE FROM edges WHERE owner = ? AND source = ? AND kind = ? AND target = ?"
DELETE_EDGES_FROM = "DELETE FROM edges WHERE owner = ? AND source = ?"
DELETE_EDGES_TO = f"DELETE FROM edges {BY_TARGET} WHERE owner = ? AND target = ?"

NODES_PER_DELETION: Final[int] = 2000
"""The maximum number of nodes that one batch deletes unchecked, which stops other writes for about
20 ms."""

Statement = tuple[str, Sequence[Sequence[Any]]]
"""A query with `?` for values, and the values of each row to run it for."""
EdgeKey = tuple[UUID, UUID, int, UUID]
"""Owner, source, kind, target: two nodes have at most one edge of a kind in each direction."""
NodesOfOwner = tuple[UUID, tuple[UUID, ...]]
"""An owner and the ids of some of its nodes."""


class StoreUnavailable(ServerError):
    """Raised when the database does not answer, is busy for too long or refuses a write."""

    code = "storage_unavailable"
    status = 503


class StoreDamaged(StoreUnavailable):
    """Raised when the database's file is damaged: a row or a page is not as it was written."""

    def __init__(self) -> None:
        super().__init__(
            "The store's file is damaged; nothing was written. Restore a backup with "
            "`contextrender restore`."
        )


class WriteConflict(Exception):
    """Raised when another request changed a row that this request has read. Nothing is written."""


@dataclass(slots=True)
class WriteBatch:
    """Rows to write together or not at all, as values in the order of their statements' `?`.

    The whole batch fails with `WriteConflict` if a node to insert exists, or if the revision of a
    node in the store differs from the revision in the batch.
    """

    insert_nodes: list[tuple[UUID, UUID, int, float | None, bytes]] = field(default_factory=list)
    """Owner, id, kind, number by which nodes of the kind are listed (None: not listed), data."""
    update_nodes: list[tuple[bytes, UUID, UUID, int]] = field(default_factory=list)
    """Data, owner, id, revision."""
    increment_revisions: list[tuple[UUID, UUID, int]] = field(default_factory=list)
    """Owner, id, revision of nodes that must be unchanged. The increment makes other requests fail
    that have read the same revision and write later."""
    delete_nodes: list[tuple[UUID, UUID, int]] = field(default_factory=list)
    """Owner, id, revision of nodes to delete with their edges."""
    upsert_edges: list[tuple[UUID, UUID, int, UUID, bytes | None]] = field(default_factory=list)
    """Owner, source, kind, target, data."""
    delete_edges: list[EdgeKey] = field(default_factory=list)
    delete_edges_at: list[NodesOfOwner] = field(default_factory=list)
    """Nodes whose edges are all deleted."""
    delete_unchecked: list[NodesOfOwner] = field(default_factory=list)
    """Nodes to delete without their edges and without a check of their revisions."""


def edge_deletions(owner: UUID, ids: Sequence[UUID]) -> Iterator[Statement]:
    """Yield the statements that delete every edge from and to these nodes."""
    condition = f"IN ({','.join('?' * len(ids))})"
    values = [(owner, *ids)]
    yield f"DELETE FROM edges WHERE owner = ? AND source {condition}", values
    yield f"DELETE FROM edges {BY_TARGET} WHERE owner = ? AND target {condition}", values


def node_deletions(owner: UUID, ids: Sequence[UUID]) -> Iterator[Statement]:
    """Yield the statements that delete these nodes and their rows in quarantine."""
    condition = f"owner = ? AND id IN ({','.join('?' * len(ids))})"
    yield f"DELETE FROM nodes WHERE {condition}", [(owner, *ids)]
    # Quarantine has ids as text.
    yield f"DELETE FROM quarantine WHERE {condition}", [(owner, *map(str, ids))]
