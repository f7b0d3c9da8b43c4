"""All rows of one user: their size, what is old, and deleting them."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from contextrender_bridge.engine.call.usage_totals import Row
from contextrender_bridge.sessions.ids import branch_id, own_event_ids, session_id_of
from contextrender_bridge.store import rows
from contextrender_bridge.store.base import Store
from contextrender_bridge.store.writes import WIPED_AT_ONCE, WriteBatch

SESSIONS_AT_ONCE: Final = 1_000


def remove_owner(store: Store, owner: UUID) -> None:
    """Deletes everything of one user, in slices. Raises StoreUnavailable; it can be run again."""
    query = f"SELECT id FROM nodes WHERE owner = ? LIMIT {WIPED_AT_ONCE}"
    while found := store.read(query, (owner,)):
        some = [(owner, tuple(store.uuid(id) for (id,) in found))]
        store.write(WriteBatch(cut=some, wipe=some))
    with store.transaction() as cursor:
        for table in ("edges", "quarantine"):
            store.run(cursor, (f"DELETE FROM {table} WHERE owner = ?", [(owner,)]))
    store.reclaim()


def stored_bytes(store: Store, owner: UUID) -> int:
    """What the owner's rows hold, without the database's own share."""
    query = "SELECT COALESCE(SUM(LENGTH(data)), 0) FROM {} WHERE owner = ?"
    return sum(int(store.read(query.format(table), (owner,))[0][0]) for table in ("nodes", "edges"))


def count_sessions(store: Store, owner: UUID) -> int:
    """How many sessions the owner has."""
    kind = store.kinds.number("nodes.session", "Session")
    query = "SELECT COUNT(*) FROM nodes WHERE owner = ? AND kind = ? AND listed IS NOT NULL"
    return int(store.read(query, (owner, kind))[0][0])


def has_session(store: Store, owner: UUID, key: str) -> bool:
    """Whether there is one of that key."""
    return any(store.nodes(owner, [session_id_of(owner, key)]))


@dataclass(frozen=True)
class StoredSession:
    """A session as it is stored: when it was last written, and its branches' number."""

    key: str
    updated_at: float
    branches: int


def kept_sessions(store: Store, owner: UUID) -> list[StoredSession]:
    """The owner's sessions, those longest unused first."""
    found = [
        StoredSession(held["key"], held["updated_at"], held["branches"])
        for held in listed_fields(store, owner)
    ]
    return sorted(found, key=lambda one: one.updated_at)


def unfinished_removals(store: Store, owner: UUID) -> list[str]:
    """The names of the owner's sessions whose delete did not come to its end."""
    return [held["key"] for held in listed_fields(store, owner, "nodes.removal", "PendingDeletion")]


def session_bytes(store: Store, owner: UUID, kept: StoredSession) -> int:
    """What the rows of a session's events and the edges from them hold."""
    session = session_id_of(owner, kept.key)
    branches = [branch_id(session, number) for number in range(kept.branches)]
    held = {id: rows.read(data)[1] for id, _, _, data in store.nodes(owner, branches)}
    ranges = [(held[id]["fork_events"], held[id]["events"]) for id in branches if id in held]
    return store.bytes_of(owner, own_event_ids(session, ranges))


def listed_fields(
    store: Store, owner: UUID, module: str = "nodes.session", name: str = "Session"
) -> Iterator[Mapping[str, Any]]:
    """The fields of every node of a kind that is listed; damaged rows are left out."""
    kind = store.kinds.number(module, name)
    query = (
        "SELECT id, data FROM nodes WHERE owner = ? AND kind = ? AND listed IS NOT NULL "
        "AND id > ? ORDER BY id LIMIT ?"
    )
    last = UUID(int=0)
    while found := store.read(query, (owner, kind, last, SESSIONS_AT_ONCE)):
        for id, data in found:
            last = store.uuid(id)
            with suppress(ValueError):
                yield rows.read(bytes(data))[1]


def all_spent(store: Store) -> Iterator[list[Row]]:
    """The totals of every session of every user: for the operator's figures alone."""
    kind = store.kinds.number("nodes.session", "Session")
    query = "SELECT DISTINCT owner FROM nodes WHERE kind = ? AND listed IS NOT NULL"
    for (owner,) in store.read(query, (kind,)):
        for fields in listed_fields(store, store.uuid(owner)):
            yield fields.get("usage_totals", [])
