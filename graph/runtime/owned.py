"""All that one user has: how much it is, and its end."""

from uuid import UUID

from graph.runtime.identity import session_id_of
from graph.runtime.store import Store
from graph.runtime.unit import WIPED_AT_ONCE, Unit


def remove_owner(store: Store, owner: UUID) -> None:
    """Deletes everything of one user, in slices. Raises StoreUnavailable; it can be run again."""
    some = f"SELECT id FROM nodes WHERE owner = ? LIMIT {WIPED_AT_ONCE}"
    while found := store.read(some, (owner,)):
        store.write(Unit(wipe=[(owner, tuple(store.uuid(id) for (id,) in found))]))
    with store.transaction() as cursor:
        for table in ("edges", "quarantine"):
            delete = store.query(f"DELETE FROM {table} WHERE owner = ?")
            cursor.execute(delete, store.row((owner,)))
    store.reclaim()


def stored_bytes(store: Store, owner: UUID) -> int:
    """What the owner's rows hold, without the database's own share."""
    total = 0
    for table in ("nodes", "edges"):
        query = f"SELECT COALESCE(SUM(LENGTH(data)), 0) FROM {table} WHERE owner = ?"
        total += int(store.read(query, (owner,))[0][0])
    return total


def count_sessions(store: Store, owner: UUID) -> int:
    """How many sessions the owner has."""
    kind = store.kinds.number_of("nodes.session", "Session")
    query = "SELECT COUNT(*) FROM nodes WHERE owner = ? AND kind = ? AND listed IS NOT NULL"
    return int(store.read(query, (owner, kind))[0][0])


def has_session(store: Store, owner: UUID, key: str) -> bool:
    """Whether there is one of that key."""
    return any(store.nodes(owner, [session_id_of(owner, key)]))
