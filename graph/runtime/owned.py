"""All that one user has: how much it is, and its end."""

from uuid import UUID

from graph.runtime.store import Store


def remove_owner(store: Store, owner: UUID) -> None:
    """Deletes everything of one user, in one transaction. Raises StoreUnavailable."""
    with store.transaction() as cursor:
        for table in ("edges", "nodes", "quarantine"):
            delete = store.query(f"DELETE FROM {table} WHERE owner = ?")
            cursor.execute(delete, store.row((owner,)))
    store.reclaim()
