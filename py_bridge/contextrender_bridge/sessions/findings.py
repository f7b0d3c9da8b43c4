"""The findings of `contextrender check`, and their repair."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal
from uuid import UUID

from contextrender_bridge.sessions.ids import CALL_EDGES
from contextrender_bridge.store.base import InvalidId, Store
from contextrender_bridge.store.writes import WriteBatch

Kind = Literal[
    "damaged file", "unreadable", "missing", "corrupted", "dangling", "orphan", "set aside"
]
NO_OWNER: Final = UUID(int=0)
"""The owner in findings about the database's file."""
Edge = tuple[UUID, int, UUID]
"""An edge: its source, the number of its type, and its target."""
DERIVED: Final = frozenset({"Reuse", "Superseded", *CALL_EDGES})
"""Types of edges that follow from nodes' texts and numbers. `repair` deletes wrong ones."""
WITH_FIELDS: Final = frozenset({"Reuse", "ShowsExcerpt", "Restores", "Misses"})
"""Types of edges with fields. Such an edge cannot be written again if its fields are lost."""
KEPT_IF_DANGLING: Final = frozenset({"Owns", "HasBranch", "HasFirstEvent"})
"""Types of edges that are kept if a node at an end is missing, because a node with the same id is
rebuilt at its next use."""

QUARANTINE: Final = (
    "INSERT INTO quarantine (id, owner, rev, kind, listed, data, error, quarantined_at) "
    "SELECT ?, owner, rev, kind, listed, data, ?, ? FROM nodes WHERE owner = ? AND id = ? "
    "ON CONFLICT (id) DO UPDATE SET data = excluded.data, error = excluded.error"
)
"""Copy a node's row to quarantine. The values are its id as text, the error, the time, the owner
and the id."""


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """A fault in a store.

    `session` is the session's key, or its id if the key is unknown, or empty if there is none.
    `node` or `edge` is the faulty node or edge. `row` is the row that the edge should have, or None
    if that is unknown.
    """

    kind: Kind
    message: str
    owner: UUID
    session: str = ""
    node: UUID | None = None
    edge: Edge | None = None
    row: bytes | None = None


def repair(store: Store, finding: StoreFinding) -> bool:
    """Repair a finding, and return whether that was possible.

    Move unreadable nodes and orphans into quarantine. Write an edge again if it is missing, if the
    finding has its correct `row`, or if it is unreadable and its type has no fields. Delete other
    corrupted edges of types in `DERIVED`, edges of unknown types, and dangling edges with an
    invalid end or of types not in `KEPT_IF_DANGLING`. Missing nodes stay missing.
    """
    if finding.kind in ("unreadable", "orphan") and finding.node is not None:
        put_aside(store, finding.owner, finding.node, finding.message)
        return True
    if finding.edge is None:  # For example, a missing node cannot be repaired.
        return False
    source, edge_type, target = finding.edge
    _, type_name = store.kinds.name(edge_type)
    has_type = store.kinds.has(edge_type)
    edge_key = (finding.owner, *finding.edge)
    needs_no_row = finding.kind == "unreadable" and has_type and type_name not in WITH_FIELDS
    # Write the edge again.
    if finding.kind == "missing" or finding.row is not None or needs_no_row:
        store.write(WriteBatch(upsert_edges=[(*edge_key, finding.row)]))
        return True
    # Delete the edge if it is wrong, or if it leads to or from a missing node.
    is_wrong = not has_type or (finding.kind == "corrupted" and type_name in DERIVED)
    has_invalid_end = isinstance(source, InvalidId) or isinstance(target, InvalidId)
    is_kept = type_name in KEPT_IF_DANGLING and not has_invalid_end
    is_useless = finding.kind == "dangling" and not is_kept
    if is_wrong or is_useless:
        store.write(WriteBatch(delete_edges=[edge_key]))
    return is_wrong or is_useless


def put_aside(store: Store, owner: UUID, id: UUID, error: str) -> None:
    """Move a node's row into quarantine, and keep its edges. `error` is the reason."""
    now = datetime.now(UTC).isoformat()
    delete = "DELETE FROM nodes WHERE owner = ? AND id = ?"
    with store.transaction() as cursor:
        quarantine = (QUARANTINE, [(str(id), error, now, owner, id)])
        store.run(cursor, quarantine, (delete, [(owner, id)]))
