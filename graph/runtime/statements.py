"""The statements that write nodes and edges, with `?` for values: owner first in every one."""

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
PART_IN = "DELETE FROM edges WHERE owner = ? AND target = ?"
