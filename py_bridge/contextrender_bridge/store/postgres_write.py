"""A batch as one PostgreSQL statement, which writes, checks and commits it in one round trip.

The statement counts the rows that its parts wrote. If the count is too low, another request has
changed or inserted a row. Then the statement divides by zero, because only an error undoes it.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from psycopg import Connection

from contextrender_bridge.store.writes import WriteBatch

INSERT_NODES: Final = """inserted_nodes AS (
    INSERT INTO nodes (owner, id, rev, kind, listed, data)
    SELECT %(owner)s, id, 1, kind, listed, data FROM unnest(
        %(inserted_nodes_id)b::uuid[], %(inserted_nodes_kind)b::smallint[],
        %(inserted_nodes_listed)b::float8[], %(inserted_nodes_data)b::bytea[]
    ) AS input (id, kind, listed, data)
    ON CONFLICT DO NOTHING RETURNING 1)"""
UPDATE_NODES: Final = """updated_nodes AS (
    UPDATE nodes SET rev = nodes.rev + 1, data = input.data FROM unnest(
        %(updated_nodes_data)b::bytea[], %(updated_nodes_id)b::uuid[],
        %(updated_nodes_rev)b::bigint[]
    ) AS input (data, id, rev)
    WHERE owner = %(owner)s AND nodes.id = input.id AND nodes.rev = input.rev RETURNING 1)"""
INCREMENT_REVISIONS: Final = """unchanged_nodes AS (
    UPDATE nodes SET rev = nodes.rev + 1 FROM unnest(
        %(unchanged_nodes_id)b::uuid[], %(unchanged_nodes_rev)b::bigint[]
    ) AS input (id, rev)
    WHERE owner = %(owner)s AND nodes.id = input.id AND nodes.rev = input.rev RETURNING 1)"""
UPSERT_EDGES: Final = """upserted_edges AS (
    INSERT INTO edges (owner, source, kind, target, data)
    SELECT %(owner)s, source, kind, target, data FROM unnest(
        %(upserted_edges_source)b::uuid[], %(upserted_edges_kind)b::smallint[],
        %(upserted_edges_target)b::uuid[], %(upserted_edges_data)b::bytea[]
    ) AS input (source, kind, target, data)
    ON CONFLICT (owner, source, kind, target) DO UPDATE SET data = excluded.data RETURNING 1)"""
DELETE_EDGES: Final = """deleted_edges AS (
    DELETE FROM edges USING unnest(
        %(deleted_edges_source)b::uuid[], %(deleted_edges_kind)b::smallint[],
        %(deleted_edges_target)b::uuid[]
    ) AS input (source, kind, target)
    WHERE edges.owner = %(owner)s AND edges.source = input.source AND edges.kind = input.kind
    AND edges.target = input.target)"""
"""The parts of the statement. Each begins with its name, which is the prefix of its parameters."""

CombinedStatement = tuple[str, dict[str, Any]]
"""A query of PostgreSQL and its parameters by name."""


class _Part(NamedTuple):
    """A part of the statement: its text, the names of the columns of its values, and the values.

    `columns` has the names with spaces between. Each of `rows` has one value per column.
    """

    text: str
    columns: str
    rows: Sequence[Sequence[Any]]

    @property
    def name(self) -> str:
        """The name at the beginning of the text."""
        return self.text.split()[0]

    def values_by_column(self) -> dict[str, list[Any]]:
        """Return the values that each column has in all rows."""
        all_values = zip(*self.rows, strict=True)
        names = self.columns.split()
        return {name: list(values) for name, values in zip(names, all_values, strict=True)}


def combined_statement(batch: WriteBatch) -> CombinedStatement | None:
    """Return one statement that writes the whole batch, or None if that is not possible.

    It is not possible if the batch deletes nodes, has rows of several owners, or only deletes
    edges. Then `Store.apply` must write it. The statement has one part per kind of change. It fails
    unless these parts wrote every row; only edges to delete may be missing.
    """
    # Collect the parts that have rows.
    written_parts = [
        _Part(INSERT_NODES, "owner id kind listed data", batch.insert_nodes),
        _Part(UPDATE_NODES, "data owner id rev", batch.update_nodes),
        _Part(INCREMENT_REVISIONS, "owner id rev", batch.increment_revisions),
        _Part(UPSERT_EDGES, "owner source kind target data", batch.upsert_edges),
    ]
    written_parts = [part for part in written_parts if part.rows]
    deletes_nodes = batch.delete_nodes or batch.delete_edges_at or batch.delete_unchecked
    if deletes_nodes or not written_parts:
        return None
    parts = list(written_parts)
    if batch.delete_edges:
        parts.append(_Part(DELETE_EDGES, "owner source kind target", batch.delete_edges))
    # Collect the parameters: the values of each column of each part, and the number of all rows.
    # The owner is a parameter of its own, because it must be the same in all rows.
    owners = set[UUID]()
    parameters: dict[str, Any] = {"rows": sum(len(part.rows) for part in written_parts)}
    for part in parts:
        values_by_column = part.values_by_column()
        owners.update(values_by_column.pop("owner"))
        for column, values in values_by_column.items():
            parameters[f"{part.name}_{column}"] = values
    if len(owners) != 1:
        return None
    parameters["owner"] = owners.pop()
    # An edge to delete need not exist, so its part is not counted. If another part did not write
    # all its rows, the divisor is 0. The error undoes the whole statement.
    counts = [f"(SELECT count(*) FROM {part.name})" for part in written_parts]
    wrote_all = f"({' + '.join(counts)} = %(rows)s)"
    query = f"WITH {', '.join(part.text for part in parts)} SELECT 1 / {wrote_all}::int"
    return query, parameters


def run_together(connection: Connection[Any], statements: Sequence[CombinedStatement]) -> None:
    """Run statements in one round trip and one transaction. Raise psycopg's error if one fails."""
    # One statement is a transaction by itself.
    if len(statements) == 1:
        connection.execute(*statements[0])
        return
    with connection.pipeline():
        for statement in statements:
            connection.execute(*statement)
