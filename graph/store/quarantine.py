"""Puts rows aside when asked: `jac db recover` brings them back."""

from datetime import UTC, datetime
from uuid import UUID

from graph.store.base import Store

ASIDE = (
    "INSERT INTO quarantine (id, owner, rev, kind, listed, data, error, quarantined_at) "
    "SELECT ?, owner, rev, kind, listed, data, ?, ? FROM nodes WHERE owner = ? AND id = ? "
    "ON CONFLICT (id) DO UPDATE SET data = excluded.data, error = excluded.error"
)


def put_aside(store: Store, owner: UUID, id: UUID, error: str) -> None:
    """Moves a node's row into quarantine; its edges stay."""
    now = datetime.now(UTC).isoformat()
    with store.transaction() as cursor:
        store.run(cursor, ASIDE, [(str(id), error, now, owner, id)])
        store.run(cursor, "DELETE FROM nodes WHERE owner = ? AND id = ?", [(owner, id)])
