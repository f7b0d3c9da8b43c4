"""Move a damaged session to another name, so that its history can be recorded again.

Rows are moved without a change, even unreadable ones: nothing is repaired, and nothing is lost.
Share links are not moved, because a link opens the session that has the old name.
"""

import time
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from contextrender_bridge.sessions.findings import QUARANTINE
from contextrender_bridge.sessions.ids import ids_of_session, moved_id, session_id_of
from contextrender_bridge.sessions.session_nodes import count_branches
from contextrender_bridge.store import rows
from contextrender_bridge.store.base import InvalidId, Store
from contextrender_bridge.store.writes import (
    BY_TARGET,
    INSERT_NODE,
    UPSERT_EDGE,
    Statement,
    WriteConflict,
)

MAX_KEY_LENGTH: Final = 150
LOCK_UNCHANGED: Final = (
    "UPDATE nodes SET rev = rev WHERE owner = ? AND id = ? "
    "AND rev IS NOT DISTINCT FROM ? AND listed IS NOT DISTINCT FROM ?"
)
"""Lock a row until the transaction ends. No row is found if the row was changed or moved."""
DELETE_NODE: Final = "DELETE FROM nodes WHERE owner = ? AND id = ?"
MOVE_NODE: Final = "UPDATE nodes SET id = ? WHERE owner = ? AND id = ?"
MOVE_SOURCE: Final = "UPDATE edges SET source = ? WHERE owner = ? AND source = ? AND kind <> ?"
MOVE_TARGET: Final = f"UPDATE edges {BY_TARGET} SET target = ? WHERE owner = ? AND target = ?"


def set_aside(
    store: Store, owner: UUID, key: str, damage: str, revision: tuple[int, float | None] | None
) -> str:
    """Move a damaged session to a new name, and return that name.

    Give all its rows the ids of the new name in one transaction, and store `damage`, a sentence
    about the fault, in the session's node. If that node cannot be read, move it into quarantine and
    create a new one. `revision` is what `revision_of` returned for that node before the damage was
    found. Raise WriteConflict if another request has moved or written the session since then.
    """
    # Choose the new name, and compute the ids that follow from it.
    now = datetime.now(UTC)
    name = f"{key[:MAX_KEY_LENGTH]} (corrupted {now:%Y-%m-%d %H:%M:%S.%f})"
    old_id, new_id = session_id_of(owner, key), session_id_of(owner, name)
    session_kind = store.kinds.number("nodes.session", "Session")
    owns_kind = store.kinds.number("nodes.edges", "Owns")
    node_ids = store.ids_between(owner, *ids_of_session(old_id))
    part_ids = {id for id in node_ids if id != old_id}  # branches, events and calls
    # Prepare the statement that only one of several requests can run successfully.
    if revision is None:
        # The node is missing. Insert one. If several requests try that, only one succeeds.
        lock: Statement = (INSERT_NODE, [(owner, old_id, session_kind, None, b"")])
    else:
        lock = (LOCK_UNCHANGED, [(owner, old_id, *revision)])
    # Make the session's new row, and the statements that move the other rows.
    stored_fields = _fields_of(store, owner, old_id, session_kind)
    fields = _complete_fields(stored_fields, count_branches(part_ids))
    fields |= {"key": name, "damage": damage}
    row = rows.pack(rows.encode(fields))
    moves = _moves(store, owner, old_id, new_id, part_ids)
    with store.transaction() as cursor:
        # Do nothing if another request has written the session or moved it meanwhile. A write
        # changes the revision; a session that was created again has another time in lists.
        if store.run(cursor, lock) != [1]:
            raise WriteConflict
        # Keep a copy of a node that cannot be read.
        if revision is not None and stored_fields is None:
            quarantined = (str(old_id), damage, now.isoformat(), owner, old_id)
            store.run(cursor, (QUARANTINE, [quarantined]))
        store.run(
            cursor,
            (DELETE_NODE, [(owner, old_id)]),
            (INSERT_NODE, [(owner, new_id, session_kind, fields["created_at"], row)]),
            *moves,
            (UPSERT_EDGE, [(owner, owner, owns_kind, new_id, None)]),
        )
    return name


def _moves(
    store: Store, owner: UUID, old_id: UUID, new_id: UUID, part_ids: set[UUID]
) -> list[Statement]:
    """Return the statements that give a session's parts, and the ends of its edges, new ids.

    Edges are moved at both ends, also at an end whose node is missing. Edges to share links keep
    the old session as their source: the links belong to the session that keeps the name.
    """
    link_kind = store.kinds.number("nodes.edges", "HasShareLink")
    node_moves = [(moved_id(id, new_id), owner, id) for id in part_ids]
    end_ids = part_ids | _ends_between(store, owner, *ids_of_session(old_id))
    end_moves = [(moved_id(id, new_id), owner, id) for id in end_ids - {old_id}]
    end_moves.append((new_id, owner, old_id))  # `moved_id` moves only parts, not the session.
    # MOVE_SOURCE leaves out edges of the type `link_kind`.
    source_moves = [(*move, link_kind) for move in end_moves]
    return [(MOVE_NODE, node_moves), (MOVE_SOURCE, source_moves), (MOVE_TARGET, end_moves)]


def _ends_between(store: Store, owner: UUID, first: UUID, last: UUID) -> set[UUID]:
    """Return the valid ids from `first` to `last` at the ends of edges, also without a node."""
    ends: set[UUID] = set()
    for column, index in (("source", ""), ("target", BY_TARGET)):
        query = (
            f"SELECT DISTINCT {column} FROM edges {index} "
            f"WHERE owner = ? AND {column} >= ? AND {column} <= ?"
        )
        ends |= {store.uuid(id) for (id,) in store.read(query, (owner, first, last))}
    return {id for id in ends if not isinstance(id, InvalidId)}


def _fields_of(store: Store, owner: UUID, session: UUID, kind: int) -> dict[str, Any] | None:
    """Return the fields of a session's own node, or None if it is missing or cannot be read.

    `kind` is the number of the type Session, which the node must have.
    """
    for _, _, number, data in store.nodes(owner, [session]):
        try:
            fields = rows.read_fields(data)
        except ValueError:
            return None
        is_session = number == kind and isinstance(fields.get("created_at"), float)
        return fields if is_session else None
    return None


def _complete_fields(stored_fields: dict[str, Any] | None, branches: int) -> dict[str, Any]:
    """Return the fields of a session's node. Missing and invalid fields get defaults.

    `branches` is the minimum number of branches, according to the ids of the session's nodes.
    """
    now = time.time()
    fields: dict[str, Any] = {"created_at": now, "updated_at": now, "revision": 1, "settings": {}}
    fields |= stored_fields or {}
    # Correct the number of branches. The head must be one of them, otherwise take the last one.
    count, head = fields.get("branches"), fields.get("head")
    fields["branches"] = max(branches, count if isinstance(count, int) else 0, 1)
    is_branch = isinstance(head, int) and 0 <= head < fields["branches"]
    fields["head"] = head if is_branch else fields["branches"] - 1
    return fields
