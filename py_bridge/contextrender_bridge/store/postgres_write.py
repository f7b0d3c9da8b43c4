"""A batch as one statement of PostgreSQL: written, checked and committed in one round trip.

Each part counts its rows. If one is missing, another request was faster, and a division by zero
ends the statement: PostgreSQL has nothing else that fails in an expression and is undone with it.
"""

from collections.abc import Sequence
from typing import Any, Final

from psycopg import Connection

from contextrender_bridge.store.writes import WriteBatch

INSERTED: Final = """inserted AS (
    INSERT INTO nodes (owner, id, rev, kind, listed, data)
    SELECT %(owner)s, id, 1, kind, listed, data FROM unnest(
        %(inserted_id)b::uuid[], %(inserted_kind)b::smallint[],
        %(inserted_listed)b::float8[], %(inserted_data)b::bytea[]
    ) AS fresh (id, kind, listed, data)
    ON CONFLICT DO NOTHING RETURNING 1)"""
UPDATED: Final = """updated AS (
    UPDATE nodes SET rev = nodes.rev + 1, data = fresh.data FROM unnest(
        %(updated_data)b::bytea[], %(updated_id)b::uuid[], %(updated_rev)b::bigint[]
    ) AS fresh (data, id, rev)
    WHERE owner = %(owner)s AND nodes.id = fresh.id AND nodes.rev = fresh.rev RETURNING 1)"""
FENCED: Final = """fenced AS (
    UPDATE nodes SET rev = nodes.rev + 1
    FROM unnest(%(fenced_id)b::uuid[], %(fenced_rev)b::bigint[]) AS fresh (id, rev)
    WHERE owner = %(owner)s AND nodes.id = fresh.id AND nodes.rev = fresh.rev RETURNING 1)"""
JOIN: Final = """joined AS (
    INSERT INTO edges (owner, source, kind, target, data)
    SELECT %(owner)s, source, kind, target, data FROM unnest(
        %(joined_source)b::uuid[], %(joined_kind)b::smallint[],
        %(joined_target)b::uuid[], %(joined_data)b::bytea[]
    ) AS fresh (source, kind, target, data)
    ON CONFLICT (owner, source, kind, target) DO UPDATE SET data = excluded.data RETURNING 1)"""
PARTED: Final = """parted AS (
    DELETE FROM edges USING unnest(
        %(parted_source)b::uuid[], %(parted_kind)b::smallint[], %(parted_target)b::uuid[]
    ) AS gone (source, kind, target)
    WHERE edges.owner = %(owner)s AND edges.source = gone.source AND edges.kind = gone.kind
    AND edges.target = gone.target)"""

Combined = tuple[str, dict[str, Any]]


def one_statement(unit: WriteBatch) -> Combined | None:
    """Return the statement and its values; None for a batch that takes several.

    Such a batch deletes nodes, is of several owners, or only removes edges.
    """
    owners = {row[0] for some in (unit.insert, unit.fence, unit.join, unit.part) for row in some}
    owners |= {row[1] for row in unit.update}
    rows = len(unit.insert) + len(unit.update) + len(unit.fence) + len(unit.join)
    if len(owners) != 1 or not rows or unit.remove or unit.cut or unit.wipe:
        return None
    values: dict[str, Any] = {"owner": owners.pop(), "rows": rows}
    parts = []
    for text, fields, some in (
        (INSERTED, "owner id kind listed data", unit.insert),
        (UPDATED, "data owner id rev", unit.update),
        (FENCED, "owner id rev", unit.fence),
        (JOIN, "owner source kind target data", unit.join),
        (PARTED, "owner source kind target", unit.part),
    ):
        if some:
            name = text.split()[0]
            parts.append((name, text))
            columns = zip(fields.split(), zip(*some, strict=True), strict=True)
            values |= {f"{name}_{field}": list(column) for field, column in columns}
    names = (name for name, text in parts if text != PARTED)
    count = " + ".join(f"(SELECT count(*) FROM {name})" for name in names)
    query = f"WITH {', '.join(text for _, text in parts)} SELECT 1 / ({count} = %(rows)s)::int"
    return query, values


def run_together(connection: Connection[Any], statements: Sequence[Combined]) -> None:
    """Run statements in one round trip and one transaction. Raise PostgreSQL's errors."""
    if len(statements) == 1:
        connection.execute(*statements[0])
        return
    with connection.pipeline():
        for statement in statements:
            connection.execute(*statement)
