"""The rows of one user: their size, the stored sessions and their totals, and their deletion."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from contextrender_bridge.engine.call.usage_totals import Row, total_of
from contextrender_bridge.sessions.ids import ids_of_session, session_id_of
from contextrender_bridge.store import rows
from contextrender_bridge.store.base import Store, row_data
from contextrender_bridge.store.writes import NODES_PER_DELETION, WriteBatch

SESSIONS_AT_ONCE: Final = 1_000


def remove_owner(store: Store, owner: UUID) -> None:
    """Delete all rows of one user, in slices: the nodes with their edges, then all other rows.

    Raise StoreUnavailable if the database fails; then the function can be run again.
    """
    query = f"SELECT id FROM nodes WHERE owner = ? LIMIT {NODES_PER_DELETION}"
    while id_rows := store.read(query, (owner,)):
        slice = [(owner, tuple(store.uuid(id) for (id,) in id_rows))]
        store.write(WriteBatch(delete_edges_at=slice, delete_unchecked=slice))
    with store.transaction() as cursor:
        for table in ("edges", "quarantine"):
            store.run(cursor, (f"DELETE FROM {table} WHERE owner = ?", [(owner,)]))
    store.reclaim()


def stored_bytes(store: Store, owner: UUID) -> int:
    """Return the bytes of data in the owner's nodes and edges, without the database's overhead."""
    query = "SELECT COALESCE(SUM(LENGTH(data)), 0) FROM {} WHERE owner = ?"
    return sum(int(store.read(query.format(table), (owner,))[0][0]) for table in ("nodes", "edges"))


def count_sessions(store: Store, owner: UUID) -> int:
    """Return the number of the owner's sessions."""
    # Every session is listed. With this condition, the query uses the index `nodes_listed`.
    kind = store.kinds.number("nodes.session", "Session")
    query = "SELECT COUNT(*) FROM nodes WHERE owner = ? AND kind = ? AND listed IS NOT NULL"
    return int(store.read(query, (owner, kind))[0][0])


def has_session(store: Store, owner: UUID, key: str) -> bool:
    """Return whether the owner has a session with this key."""
    return any(store.nodes(owner, [session_id_of(owner, key)]))


@dataclass(frozen=True)
class StoredSession:
    """A stored session: its key and the time of its last write."""

    key: str
    updated_at: float


def stored_sessions(store: Store, owner: UUID) -> list[StoredSession]:
    """Return the owner's sessions, least recently written first."""
    sessions = []
    for fields in listed_fields(store, owner):
        with suppress(ValueError, TypeError, KeyError):  # A damaged row may lack a field.
            sessions.append(StoredSession(str(fields["key"]), float(fields["updated_at"])))
    return sorted(sessions, key=lambda session: session.updated_at)


def unfinished_removals(store: Store, owner: UUID) -> list[str]:
    """Return the keys of the owner's sessions whose deletion is not finished."""
    deletions = listed_fields(store, owner, "nodes.removal", "PendingDeletion")
    return [str(fields["key"]) for fields in deletions if "key" in fields]


def session_bytes(store: Store, owner: UUID, session: StoredSession) -> int:
    """Return the bytes in the rows of a session and of the edges from them."""
    parts = store.ids_between(owner, *ids_of_session(session_id_of(owner, session.key)))
    return store.bytes_of(owner, parts)


def listed_fields(
    store: Store, owner: UUID, module: str = "nodes.session", name: str = "Session"
) -> Iterator[Mapping[str, Any]]:
    """Yield the fields of each of the owner's nodes of a type; skip unreadable rows.

    Nodes of the type must be listed, which means that they have a number that orders them in lists.
    """
    kind = store.kinds.number(module, name)
    query = (
        "SELECT id, data FROM nodes WHERE owner = ? AND kind = ? AND listed IS NOT NULL "
        "AND id > ? ORDER BY id LIMIT ?"
    )
    last = UUID(int=0)
    while node_rows := store.read(query, (owner, kind, last, SESSIONS_AT_ONCE)):
        for id, data in node_rows:
            last = store.uuid(id)
            with suppress(ValueError):
                yield rows.read_fields(row_data(data))


def all_usage_totals(store: Store) -> Iterator[list[Row]]:
    """Yield the usage totals of every session of every user, for the operator's metrics."""
    kind = store.kinds.number("nodes.session", "Session")
    query = "SELECT DISTINCT owner FROM nodes WHERE kind = ? AND listed IS NOT NULL"
    for (owner,) in store.read(query, (kind,)):
        for fields in listed_fields(store, store.uuid(owner)):
            with suppress(ValueError, TypeError):  # The values of a damaged row
                totals = fields.get("usage_totals", [])
                total_of(totals)
                yield totals
