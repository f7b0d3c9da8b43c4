"""The statements that write nodes and edges, with `?` for values: owner first in every one."""

from collections.abc import Iterator, Sequence
from uuid import UUID

BY_TARGET = "/* by target */"
"""Behind `FROM edges`: use the index. SQLite would read all of an owner's edges instead."""

INSERT = (
    "INSERT INTO nodes (owner, id, rev, kind, listed, data) VALUES (?, ?, 1, ?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)
UPDATE = (
    "UPDATE nodes SET rev = rev + 1, listed = ?, data = ? WHERE owner = ? AND id = ? AND rev = ?"
)
FENCE = "UPDATE nodes SET rev = rev + 1 WHERE owner = ? AND id = ? AND rev = ?"
REMOVE = "DELETE FROM nodes WHERE owner = ? AND id = ? AND rev = ?"
JOIN = (
    "INSERT INTO edges (owner, source, kind, target, data) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (owner, source, kind, target) DO UPDATE SET data = excluded.data"
)
PART = "DELETE FROM edges WHERE owner = ? AND source = ? AND kind = ? AND target = ?"
PART_OUT = "DELETE FROM edges WHERE owner = ? AND source = ?"
PART_IN = f"DELETE FROM edges {BY_TARGET} WHERE owner = ? AND target = ?"


def cutting(owner: UUID, ids: Sequence[UUID]) -> Iterator[tuple[str, Sequence[object]]]:
    """What deletes every edge at these nodes."""
    among = f"IN ({','.join('?' * len(ids))})"
    yield f"DELETE FROM edges WHERE owner = ? AND source {among}", (owner, *ids)
    yield f"DELETE FROM edges {BY_TARGET} WHERE owner = ? AND target {among}", (owner, *ids)


def wiping(owner: UUID, ids: Sequence[UUID]) -> Iterator[tuple[str, Sequence[object]]]:
    """What deletes these nodes, and what was put aside of them."""
    among = f"owner = ? AND id IN ({','.join('?' * len(ids))})"
    yield f"DELETE FROM nodes WHERE {among}", (owner, *ids)
    yield f"DELETE FROM quarantine WHERE {among}", (owner, *map(str, ids))
