"""A database of nodes and edges: what SQLite and PostgreSQL have in common.

Statements are written once, with `?` for values; a driver turns them into its own. Every statement
on nodes and edges binds the owner, so that rows can be spread over machines by owner.
Long because it is one class: reading, writing and layout of the same four tables.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import batched
from typing import Any, ClassVar, Final, Protocol
from uuid import UUID

from contextrender_bridge.base.spans import span
from contextrender_bridge.store.kinds import TypeNumbers
from contextrender_bridge.store.schema import VERSION
from contextrender_bridge.store.writes import (
    BY_TARGET,
    DELETE_EDGE,
    DELETE_EDGES_FROM,
    DELETE_EDGES_TO,
    DELETE_NODE,
    INCREMENT_REVISION,
    INSERT_NODE,
    UPDATE_NODE,
    UPSERT_EDGE,
    Statement,
    StoreDamaged,
    StoreUnavailable,
    WriteBatch,
    WriteConflict,
    WriteQueue,
    edge_deletions,
    node_deletions,
)

CLAIM: Final = (
    "INSERT INTO meta (name, value) VALUES (?, ?) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value "
    "WHERE CAST(meta.value AS DOUBLE PRECISION) NOT BETWEEN ? AND ?"
)

NodeRow = tuple[UUID, int, int, bytes]
"""Id, revision, kind, data."""

Place = tuple[float, UUID]
"""The place of a listed node: the number that orders the list, and its id."""

EdgeRow = tuple[UUID, int, UUID, bytes | None]
"""Source, kind, target, data."""


Read = Callable[..., list[Any]]
"""A function that returns the rows of a query with `?` and its values."""


class Cursor(Protocol):
    """A cursor, as both databases have it."""

    @property
    def rowcount(self) -> int:
        """Return the number of changed rows."""

    def execute(self, query: Any, params: Any = ..., /) -> Any:
        """Run one statement."""

    def executemany(self, query: Any, params: Any, /) -> Any:
        """Run one statement for many rows; `rowcount` is then that of all."""

    def fetchall(self) -> Any:
        """Return every row."""


def row_data(value: Any) -> bytes:
    """Return the data of a row from the driver's value. Raise StoreDamaged if it is no data."""
    if not isinstance(value, (bytes, memoryview)):
        raise StoreDamaged
    return bytes(value)


class OtherLayout(Exception):
    """The database was written by a version of the program with another layout."""


class Store(ABC):
    """A database of nodes and edges: reads, and a queue of writes."""

    system: ClassVar[str]
    """The database's name in spans."""
    place: str
    """Where it is, for people; without a password."""

    def __init__(self) -> None:
        """Make the queue; subclasses open the database first.

        `on_refused` is called at each failed write.
        """
        self.on_refused: Callable[[], None] = lambda: None
        self.kinds = TypeNumbers(
            lambda: self.read("SELECT number, module, name FROM kinds"), self._add_kind
        )
        self._queue = WriteQueue(self._write_all)

    # A driver's part.

    @abstractmethod
    def read(self, query: str, params: Sequence[Any] = ()) -> list[Any]:
        """Return rows of what is committed. Raise StoreUnavailable."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Cursor]:
        """Return a cursor in a write transaction; it is on disk once the block ends without error.

        Raise StoreUnavailable if it is not, or may not be, on disk.
        """

    @abstractmethod
    def execute_many(self, cursor: Cursor, query: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a query with `?` for each of these rows of values."""

    def run(self, cursor: Cursor, *statements: Statement) -> list[int]:
        """Run statements in order, each for all its rows. Return how many rows each changed."""
        row_counts: list[int] = []
        for query, rows in statements:
            if rows:
                self.execute_many(cursor, query, rows)
            row_counts.append(cursor.rowcount if rows else 0)
        return row_counts

    has_arrays = False
    """Whether several ids can be one value."""
    ids_at_once = 500
    """How many ids a statement takes."""

    def id_condition(self, column: str, ids: Sequence[UUID]) -> tuple[str, Sequence[Any]]:
        """Return the condition that a column has one of these ids, with `?`, and its values."""
        if self.has_arrays:
            return f"{column} = ANY(?)", (list(ids),)
        return f"{column} IN ({','.join('?' * len(ids))})", ids

    @staticmethod
    @abstractmethod
    def uuid(value: Any) -> UUID:
        """Return the id of a value of the driver. Raise StoreDamaged if it is none."""

    @abstractmethod
    def error_for(self, failure: Exception) -> Exception:
        """Return the error that callers get for a failure of the driver; others as they are."""

    @abstractmethod
    def connect(self) -> Any:
        """Return a connection of the driver, for accounts. The caller closes it."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection."""

    def probe(self) -> None:
        """Write a little, as any request does. Raise StoreUnavailable."""
        self.claim("probe", 0.0)

    def claim(self, work: str, seconds: float) -> bool:
        """Return whether this process is the first in so many seconds to ask for this work.

        One process then does it for all. Their clocks may differ by as much. Raise
        StoreUnavailable.
        """
        now = time.time()
        values = (work, str(now), now - seconds, now + seconds)
        with self.transaction() as cursor:
            return self.run(cursor, (CLAIM, [values])) == [1]

    def file_damage(self) -> list[str]:
        """Return what the database finds wrong with its own pages: a line for each of the first."""
        return []

    def size(self) -> int | None:
        """Return the bytes of tables and indexes; None if they are files in the data folder."""
        return None

    def reclaim(self) -> None:  # noqa: B027
        """Give back the space of deleted rows, if the database does not do so by itself."""

    # Reading.

    def nodes(self, owner: UUID, ids: Iterable[UUID]) -> list[NodeRow]:
        """Return the owner's nodes with these ids that exist, in any order."""
        query = "SELECT id, rev, kind, data FROM nodes WHERE owner = ?"
        rows = self._rows_of_ids(query, [owner], "id", ids)
        return [(self.uuid(id), rev, kind, row_data(data)) for id, rev, kind, data in rows]

    def ids_between(self, owner: UUID, first: UUID, last: UUID, limit: int = -1) -> list[UUID]:
        """Return the ids of the owner's nodes from `first` to `last`, in order; at most `limit`."""
        query = "SELECT id FROM nodes WHERE owner = ? AND id >= ? AND id <= ? ORDER BY id"
        if limit >= 0:
            query += f" LIMIT {limit}"
        return [self.uuid(id) for (id,) in self.read(query, (owner, first, last))]

    def stamp(self, owner: UUID, id: UUID) -> tuple[int, float | None] | None:
        """Return a node's revision and what it is listed by; None if it does not exist."""
        query = "SELECT rev, listed FROM nodes WHERE owner = ? AND id = ?"
        rows = self.read(query, (owner, id))
        return (rows[0][0], rows[0][1]) if rows else None

    def _rows_of_ids(
        self, query: str, values: Sequence[Any], column: str, ids: Iterable[UUID]
    ) -> Iterator[Any]:
        """Return the rows of a query whose column has one of these ids, so many at once."""
        for some in batched(ids, self.ids_at_once):
            condition, more = self.id_condition(column, some)
            yield from self.read(f"{query} AND {condition}", (*values, *more))

    def edges(self, owner: UUID, ids: Iterable[UUID]) -> list[EdgeRow]:
        """Return the edges from and to these nodes; an edge between two of them comes twice."""
        return [
            (self.uuid(source), kind, self.uuid(target), data and row_data(data))
            for some in batched(ids, self.ids_at_once)
            for source, kind, target, data in self.read(*self._edges_at(owner, some))
        ]

    def nodes_with_edges(
        self, owner: UUID, ids: Sequence[UUID]
    ) -> tuple[list[NodeRow], list[EdgeRow]]:
        """Return `nodes` and `edges` of a few ids, read by one statement."""
        condition, values = self.id_condition("id", ids)
        edges, ends = self._edges_at(owner, ids, "source, kind, target, data, NULL")
        query = f"SELECT id, kind, NULL, data, rev FROM nodes WHERE owner = ? AND {condition}"
        nodes: list[NodeRow] = []
        edge_rows: list[EdgeRow] = []
        for first, kind, target, data, rev in self.read(
            f"{query} UNION ALL {edges}", (owner, *values, *ends)
        ):
            if target is None:
                nodes.append((self.uuid(first), rev, kind, row_data(data)))
            else:
                row = data and row_data(data)
                edge_rows.append((self.uuid(first), kind, self.uuid(target), row))
        return nodes, edge_rows

    def _edges_at(
        self, owner: UUID, ids: Sequence[UUID], columns: str = "source, kind, target, data"
    ) -> tuple[str, Sequence[Any]]:
        out, sources = self.id_condition("source", ids)
        into, targets = self.id_condition("target", ids)
        query = (
            f"SELECT {columns} FROM edges WHERE owner = ? AND {out} UNION ALL "
            f"SELECT {columns} FROM edges {BY_TARGET} WHERE owner = ? AND {into}"
        )
        return query, (owner, *sources, owner, *targets)

    def edges_out(
        self, owner: UUID, ids: Iterable[UUID], kind: int
    ) -> Iterator[tuple[UUID, UUID, bytes | None]]:
        """Return the edges of one kind from these nodes: source, target, data."""
        query = "SELECT source, target, data FROM edges WHERE owner = ? AND kind = ?"
        for source, target, data in self._rows_of_ids(query, [owner, kind], "source", ids):
            yield self.uuid(source), self.uuid(target), data and row_data(data)

    def sources(self, owner: UUID, ids: Iterable[UUID], kind: int) -> Iterator[UUID]:
        """Return the sources of the edges of one kind to these nodes."""
        query = f"SELECT source FROM edges {BY_TARGET} WHERE owner = ? AND kind = ?"
        for (source,) in self._rows_of_ids(query, [owner, kind], "target", ids):
            yield self.uuid(source)

    def bytes_of(self, owner: UUID, ids: Sequence[UUID]) -> int:
        """Return the bytes in the rows of these nodes and of the edges from them."""
        total = 0
        for table, column in (("nodes", "id"), ("edges", "source")):
            query = f"SELECT COALESCE(SUM(LENGTH(data)), 0) FROM {table} WHERE owner = ?"
            total += sum(int(size) for (size,) in self._rows_of_ids(query, [owner], column, ids))
        return total

    def sizes(self, owner: UUID, ids: Iterable[UUID]) -> Iterator[tuple[UUID, int]]:
        """Return the id and the bytes of each of these nodes that exists."""
        query = "SELECT id, LENGTH(data) FROM nodes WHERE owner = ?"
        for id, size in self._rows_of_ids(query, [owner], "id", ids):
            yield self.uuid(id), int(size)

    def listed(self, owner: UUID, kind: int, before: Place | None, limit: int) -> list[UUID]:
        """Return the newest nodes of a kind that are listed before a place."""
        when, id = before or (float("inf"), owner)
        rows = self.read(
            "SELECT id FROM nodes WHERE owner = ? AND kind = ? AND listed IS NOT NULL "
            "AND (listed, id) < (?, ?) "
            "ORDER BY listed DESC, id DESC LIMIT ?",
            (owner, kind, when, id, limit),
        )
        return [self.uuid(id) for (id,) in rows]

    # Writing.

    def write(self, batch: WriteBatch) -> None:
        """Write a batch in one transaction; it is on disk when this returns.

        Raise WriteConflict or StoreUnavailable. Then nothing is written. If the answer of a remote
        database was lost, everything may be written: writing the batch again changes nothing.
        """
        try:
            with span("store write", db__system__name=self.system):
                self._queue.write(batch)
        except StoreUnavailable:
            self.on_refused()
            raise
        if batch.delete_nodes:
            self.reclaim()

    def apply(self, cursor: Cursor, batch: WriteBatch) -> None:
        """Write a batch within a transaction. Raise WriteConflict."""
        deleted_ids = [(owner, id) for owner, id, _ in batch.delete_nodes]
        checked: list[Statement] = [
            (INSERT_NODE, batch.insert_nodes),
            (UPDATE_NODE, batch.update_nodes),
            (INCREMENT_REVISION, batch.increment_revisions),
            (DELETE_NODE, batch.delete_nodes),
        ]
        unchecked: list[Statement] = [
            (DELETE_EDGES_FROM, deleted_ids),
            (DELETE_EDGES_TO, deleted_ids),
            (DELETE_EDGE, batch.delete_edges),
            (UPSERT_EDGE, batch.upsert_edges),
        ]
        for owner, ids in batch.delete_edges_at:
            unchecked += edge_deletions(owner, ids)
        for owner, ids in batch.delete_unchecked:
            unchecked += node_deletions(owner, ids)
        row_counts = self.run(cursor, *checked, *unchecked)
        # A row did not change if another request was faster. The caller rolls back.
        if row_counts[: len(checked)] != [len(rows) for _, rows in checked]:
            raise WriteConflict

    def _write_all(self, batches: Sequence[WriteBatch]) -> list[Exception | None]:
        """Write batches in one transaction, each in a savepoint, so that one can fail alone.

        Return an error, or None, for each.
        """
        with self.transaction() as cursor:
            if len(batches) == 1:
                self.apply(cursor, batches[0])
                return [None]
            return [self._write_in_savepoint(cursor, batch) for batch in batches]

    def _write_in_savepoint(self, cursor: Cursor, batch: WriteBatch) -> Exception | None:
        cursor.execute("SAVEPOINT batch")
        try:
            self.apply(cursor, batch)
        except Exception as failure:
            cursor.execute("ROLLBACK TO SAVEPOINT batch")
            cursor.execute("RELEASE SAVEPOINT batch")
            error = self.error_for(failure)
            error.__cause__ = None if error is failure else failure
            return error
        cursor.execute("RELEASE SAVEPOINT batch")
        return None

    def _add_kind(self, module: str, name: str) -> None:
        with self.transaction() as cursor:
            query = "INSERT INTO kinds (module, name) VALUES (?, ?) ON CONFLICT DO NOTHING"
            self.run(cursor, (query, [(module, name)]))

    def make_tables(self, cursor: Cursor, create: Sequence[str]) -> None:
        """Make the tables in an empty database. Raise OtherLayout if it has others."""
        cursor.execute(create[0])
        cursor.execute("SELECT value FROM meta WHERE name = 'layout'")
        rows = cursor.fetchall()
        if not rows:
            for statement in create[1:]:
                cursor.execute(statement)
            insert = "INSERT INTO meta (name, value) VALUES ('layout', ?)"
            self.run(cursor, (insert, [(str(VERSION),)]))
        elif rows[0][0] != str(VERSION):
            raise OtherLayout(
                f"{self.place} has layout {rows[0][0]}; this version knows {VERSION}. "
                "Use the version that wrote it."
            )


__all__ = ["Cursor", "OtherLayout", "Read", "Store", "StoreUnavailable"]
