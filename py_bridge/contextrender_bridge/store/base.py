"""The base class of the stores in SQLite and in PostgreSQL, and the queue of their writes.

Statements are written once, with `?` for values; each subclass converts them for its driver. Every
statement on nodes and edges binds the owner, so rows can be distributed over machines by owner.
Long because reading, writing and layout of the same four tables belong to one class.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import blake2b
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
    StoreUnavailable,
    WriteBatch,
    WriteConflict,
    edge_deletions,
    node_deletions,
)

CLAIM_WORK: Final = (
    "INSERT INTO meta (name, value) VALUES (?, ?) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value "
    "WHERE CAST(meta.value AS DOUBLE PRECISION) NOT BETWEEN ? AND ?"
)
"""Store the time of a claim of some work, unless its last claim was between the two times given.

The values are the work's name, the time as text, and the two times.
"""

MAX_BATCHES: Final = 64
"""The maximum number of batches that the queue writes in one transaction."""

NodeRow = tuple[UUID, int, int, bytes]
"""Id, revision, kind, data."""

Place = tuple[float, UUID]
"""The place of a node in its list: the number that orders the list (`listed`), and its id."""

EdgeRow = tuple[UUID, int, UUID, bytes | None]
"""Source, kind, target, data."""


ReadRows = Callable[..., list[Any]]
"""A function that returns the rows of a query. It takes the query with `?`, and its values."""


class Cursor(Protocol):
    """The methods of a cursor that both drivers have."""

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement changed."""

    def execute(self, query: Any, params: Any = ..., /) -> Any:
        """Run one statement."""

    def executemany(self, query: Any, params: Any, /) -> Any:
        """Run one statement for many rows of values; then `rowcount` is the sum over all rows."""

    def fetchall(self) -> Any:
        """Return all rows of the last query."""


class InvalidId(UUID):
    """A value in place of an id, which only a damaged row has. It is the id of no node.

    The digits are a digest of the value. Queries use the value itself, so that the row can be
    deleted.
    """

    value: Any

    def __init__(self, value: Any) -> None:
        """Compute the digits from the value and its type."""
        super().__init__(bytes=blake2b(repr(value).encode(), digest_size=16).digest())
        object.__setattr__(self, "value", value)


def row_data(value: Any) -> bytes:
    """Return a row's data from the driver's value, or empty bytes if the value has another type.

    Empty bytes cannot be read as a row, so such a row counts as damaged.
    """
    return bytes(value) if isinstance(value, (bytes, memoryview)) else b""


class OtherLayout(Exception):
    """Raised when a version of the program with another layout wrote the database."""


@dataclass(slots=True)
class _Job:
    """A batch in the queue. Once it `is_done`, `failure` is its error; None if it was written."""

    batch: WriteBatch
    is_done: bool = False
    failure: BaseException | None = None


class WriteQueue:
    """The queue of batches that a process writes, in the order in which they come.

    The thread that holds the write lock writes all waiting batches, with one transaction and one
    sync to disk for up to `MAX_BATCHES` of them.
    """

    def __init__(self, write_all: Callable[[Sequence[WriteBatch]], list[Exception | None]]) -> None:
        """Create a queue. `write_all` writes batches, and returns None or an error for each."""
        self._write_all = write_all
        self._jobs: list[_Job] = []
        self._jobs_lock = threading.Lock()
        self.write_lock = threading.Lock()
        """The lock of the thread that writes. SQLite polls its own lock with ever longer sleeps, so
        threads wait for this lock instead."""

    def write(self, batch: WriteBatch) -> None:
        """Write a batch, or wait until another thread has written it. Raise the batch's error."""
        job = _Job(batch)
        with self._jobs_lock:
            self._jobs.append(job)
        while not job.is_done:
            with self.write_lock:
                # The thread that had the lock before may have written this batch too.
                if not job.is_done:
                    self._write_first_jobs()
        if job.failure is not None:
            raise job.failure

    def _write_first_jobs(self) -> None:
        """Write the first waiting jobs in one transaction, and set the outcome of each job.

        The caller must have the write lock.
        """
        with self._jobs_lock:
            jobs = self._jobs[:MAX_BATCHES]
            del self._jobs[:MAX_BATCHES]
        try:
            failures: Sequence[BaseException | None] = self._write_all([job.batch for job in jobs])
        except BaseException as failure:
            failures = [failure] * len(jobs)
        for job, job_failure in zip(jobs, failures, strict=True):
            job.failure = job_failure
            job.is_done = True


class Store(ABC):
    """A database of nodes and edges: reads, and a queue of writes.

    `on_refused` is called after each write that fails with StoreUnavailable.
    """

    system: ClassVar[str]
    """The database's name in spans."""
    place: str
    """The file or address of the database for messages, without a password."""
    replacement: ClassVar[tuple[str, str]]
    """A text in statements, and the text that the driver needs in its place."""
    has_arrays: ClassVar = False
    """True if one `?` can stand for a list of ids."""
    ids_per_query: ClassVar = 500
    """The maximum number of ids in one query."""

    def __init__(self) -> None:
        """Create the queue of writes and the table of type numbers, without using the database."""
        self.on_refused: Callable[[], None] = lambda: None
        self.kinds = TypeNumbers(
            lambda: self.read("SELECT number, module, name FROM kinds"), self._add_kind
        )
        self._queue = WriteQueue(self._write_all)

    # Methods that each database implements, and what follows from them.

    @abstractmethod
    def read(self, query: str, params: Sequence[Any] = ()) -> list[Any]:
        """Return the committed rows of a query. Raise StoreUnavailable if the database fails."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Cursor]:
        """Return a cursor in a write transaction, which is committed when the block ends.

        The transaction is on disk then. Raise StoreUnavailable if it is not, or may not be.
        """

    def run(self, cursor: Cursor, *statements: Statement) -> list[int]:
        """Run statements in order, each for all its rows of values.

        Return the number of database rows that each statement changed.
        """
        row_counts: list[int] = []
        for query, rows in statements:
            if rows:
                cursor.executemany(query.replace(*self.replacement), rows)
            row_counts.append(cursor.rowcount if rows else 0)
        return row_counts

    def id_condition(self, column: str, ids: Sequence[UUID]) -> tuple[str, Sequence[Any]]:
        """Return a condition that a column has one of these ids, and the values of its `?`."""
        if self.has_arrays:
            return f"{column} = ANY(?)", (list(ids),)
        return f"{column} IN ({','.join('?' * len(ids))})", ids

    @staticmethod
    @abstractmethod
    def uuid(value: Any) -> UUID:
        """Return the id in the driver's value.

        If a damaged row has another value in place of an id, return an InvalidId.
        """

    @abstractmethod
    def error_for(self, failure: Exception) -> Exception:
        """Return the error that callers get for an error of the driver.

        Return any other error unchanged.
        """

    @abstractmethod
    def connect(self) -> Any:
        """Return a new connection of the driver, for the accounts. The caller closes it."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection."""

    def probe(self) -> None:
        """Write one row to check that writing works. Raise StoreUnavailable if it does not."""
        self.claim("probe", seconds=0)

    def claim(self, work: str, seconds: float) -> bool:
        """Claim work for `seconds`, and return whether this process has the claim.

        So only one of several processes does the work. The claim fails if another claim is less
        than `seconds` old. Because clocks differ, it also fails if another claim is less than
        `seconds` in the future. Raise StoreUnavailable if the database fails.
        """
        now = time.time()
        values = (work, str(now), now - seconds, now + seconds)
        with self.transaction() as cursor:
            (changed_rows,) = self.run(cursor, (CLAIM_WORK, [values]))
            return changed_rows == 1

    def file_damage(self) -> list[str]:
        """Return the first errors that the database finds in its own file, one line each."""
        return []

    def size(self) -> int | None:
        """Return the bytes of tables and indexes; None if the caller must measure the file."""
        return None

    def reclaim(self) -> None:  # noqa: B027
        """Free the disk space of deleted rows, if the database does not do so by itself."""

    # Reading.

    def nodes(self, owner: UUID, ids: Iterable[UUID]) -> list[NodeRow]:
        """Return the owner's nodes with these ids, in any order; ids without a node are skipped."""
        query = "SELECT id, rev, kind, data FROM nodes WHERE owner = ?"
        valid_ids = (id for id in ids if not isinstance(id, InvalidId))
        rows = self._rows_of_ids(query, [owner], "id", valid_ids)
        return [self._node_row(*values) for values in rows]

    def ids_between(
        self, owner: UUID, first: UUID, last: UUID, limit: int = -1, kind: int | None = None
    ) -> list[UUID]:
        """Return the ids of the owner's nodes from `first` to `last`, in order.

        Return only the nodes of one kind if `kind` is given. Return at most `limit` ids, or all of
        them if it is negative. Skip invalid ids.
        """
        query = "SELECT id FROM nodes WHERE owner = ? AND id >= ? AND id <= ?"
        values: list[Any] = [owner, first, last]
        if kind is not None:
            query += " AND kind = ?"
            values.append(kind)
        query += " ORDER BY id"
        if limit >= 0:
            query += f" LIMIT {limit}"
        ids = [self.uuid(id) for (id,) in self.read(query, values)]
        return [id for id in ids if not isinstance(id, InvalidId)]

    def revision_of(self, owner: UUID, id: UUID) -> tuple[int, float | None] | None:
        """Return a node's revision and its number `listed`, or None if there is no such node.

        `listed` is the number that orders the node in lists, None if the node is in no list.
        """
        query = "SELECT rev, listed FROM nodes WHERE owner = ? AND id = ?"
        rows = self.read(query, (owner, id))
        return (rows[0][0], rows[0][1]) if rows else None

    def _rows_of_ids(
        self, query: str, values: Sequence[Any], column: str, ids: Iterable[UUID]
    ) -> Iterator[Any]:
        """Yield the rows of a query whose `column` has one of these ids, reading them in slices.

        `query` must end with a condition, because the condition on the ids is added to it. `values`
        are the values of its `?`.
        """
        for slice in batched(ids, self.ids_per_query):
            condition, id_values = self.id_condition(column, slice)
            yield from self.read(f"{query} AND {condition}", (*values, *id_values))

    def _node_row(self, id: Any, rev: Any, kind: int, data: Any) -> NodeRow:
        """Return a node from the driver's values.

        If the revision is no number, the row is damaged. Then return it without data, so that
        nothing can be read from it.
        """
        if not isinstance(rev, int):
            rev, data = 0, None
        return self.uuid(id), rev, kind, row_data(data)

    def _edge_row(self, source: Any, kind: int, target: Any, data: Any) -> EdgeRow:
        """Return an edge from the driver's values."""
        row = None if data is None else row_data(data)
        return self.uuid(source), kind, self.uuid(target), row

    def edges(self, owner: UUID, ids: Iterable[UUID]) -> list[EdgeRow]:
        """Return the edges from and to these nodes. An edge between two of them appears twice."""
        edges: list[EdgeRow] = []
        for slice in batched(ids, self.ids_per_query):
            query, values = self._edges_query(owner, slice)
            edges += [self._edge_row(*row) for row in self.read(query, values)]
        return edges

    def nodes_with_edges(
        self, owner: UUID, ids: Sequence[UUID]
    ) -> tuple[list[NodeRow], list[EdgeRow]]:
        """Return the nodes with these ids, and the edges from and to them, by one query.

        There may be at most `ids_per_query` ids. An edge between two of the nodes appears twice.
        """
        # Both queries return the same five columns. Only the rows of edges have a target.
        condition, id_values = self.id_condition("id", ids)
        nodes_query = f"SELECT id, kind, NULL, data, rev FROM nodes WHERE owner = ? AND {condition}"
        edges_query, edge_values = self._edges_query(
            owner, ids, columns="source, kind, target, data, NULL"
        )
        rows = self.read(
            f"{nodes_query} UNION ALL {edges_query}", (owner, *id_values, *edge_values)
        )
        # Separate the rows of nodes from the rows of edges.
        nodes: list[NodeRow] = []
        edges: list[EdgeRow] = []
        for id_or_source, kind, target, data, rev in rows:
            if target is None:
                nodes.append(self._node_row(id_or_source, rev, kind, data))
            else:
                edges.append(self._edge_row(id_or_source, kind, target, data))
        return nodes, edges

    def _edges_query(
        self, owner: UUID, ids: Sequence[UUID], columns: str = "source, kind, target, data"
    ) -> tuple[str, Sequence[Any]]:
        """Return a query for the edges from and to these nodes, and the values of its `?`."""
        from_nodes, sources = self.id_condition("source", ids)
        to_nodes, targets = self.id_condition("target", ids)
        query = (
            f"SELECT {columns} FROM edges WHERE owner = ? AND {from_nodes} UNION ALL "
            f"SELECT {columns} FROM edges {BY_TARGET} WHERE owner = ? AND {to_nodes}"
        )
        return query, (owner, *sources, owner, *targets)

    def edges_from(self, owner: UUID, ids: Iterable[UUID], kind: int) -> Iterator[EdgeRow]:
        """Yield the edges of one kind that lead from these nodes."""
        query = "SELECT source, kind, target, data FROM edges WHERE owner = ? AND kind = ?"
        for values in self._rows_of_ids(query, [owner, kind], "source", ids):
            yield self._edge_row(*values)

    def sources(self, owner: UUID, ids: Iterable[UUID], kind: int) -> Iterator[UUID]:
        """Yield the source of each edge of one kind that leads to these nodes."""
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
        """Yield the id and the stored bytes of each of these nodes; skip ids without a node."""
        query = "SELECT id, COALESCE(LENGTH(data), 0) FROM nodes WHERE owner = ?"
        for id, size in self._rows_of_ids(query, [owner], "id", ids):
            yield self.uuid(id), int(size)

    def listed(self, owner: UUID, kind: int, before: Place | None, limit: int) -> list[Place]:
        """Return the places of up to `limit` listed nodes of a kind, newest first.

        Begin with the node after the place `before`, or with the newest node if `before` is None.
        """
        any_id = owner  # No node has the number infinity, so the id makes no difference.
        number, id = before or (float("inf"), any_id)
        rows = self.read(
            "SELECT listed, id FROM nodes WHERE owner = ? AND kind = ? AND listed IS NOT NULL "
            "AND (listed, id) < (?, ?) "
            "ORDER BY listed DESC, id DESC LIMIT ?",
            (owner, kind, number, id, limit),
        )
        return [(listed, self.uuid(id)) for listed, id in rows]

    # Writing.

    def write(self, batch: WriteBatch) -> None:
        """Write a batch in one transaction. It is on disk when this method returns.

        Raise WriteConflict if another request changed a row that must be unchanged. Raise
        StoreUnavailable if the database fails. In both cases nothing is written, with one
        exception: if the answer of a remote database was lost, it may have written everything. Then
        writing the batch again changes nothing.
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
        """Write a batch within a transaction.

        Raise WriteConflict if a node to insert exists or a node's revision has changed. The caller
        must then roll back.
        """
        deleted_ids = [(owner, id) for owner, id, _ in batch.delete_nodes]
        # Each row of values of these statements must change exactly one row of the database.
        checked: list[Statement] = [
            (INSERT_NODE, batch.insert_nodes),
            (UPDATE_NODE, batch.update_nodes),
            (INCREMENT_REVISION, batch.increment_revisions),
            (DELETE_NODE, batch.delete_nodes),
        ]
        # The rows that these statements change may be missing.
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
        # If another request has inserted or changed a node before, fewer rows are changed.
        if row_counts[: len(checked)] != [len(rows) for _, rows in checked]:
            raise WriteConflict

    def _write_all(self, batches: Sequence[WriteBatch]) -> list[Exception | None]:
        """Write batches in one transaction. Return an error, or None, for each batch.

        Each of several batches has a savepoint, so that one can fail while the others are written.
        A single batch has none; its error is raised.
        """
        with self.transaction() as cursor:
            if len(batches) == 1:
                self.apply(cursor, batches[0])
                return [None]
            return [self._write_in_savepoint(cursor, batch) for batch in batches]

    def _write_in_savepoint(self, cursor: Cursor, batch: WriteBatch) -> Exception | None:
        """Write a batch, and return the error that prevented it, or None.

        After an error, nothing of the batch is written, and the transaction can continue.
        """
        cursor.execute("SAVEPOINT batch")
        try:
            self.apply(cursor, batch)
        except Exception as failure:
            cursor.execute("ROLLBACK TO SAVEPOINT batch")
            cursor.execute("RELEASE SAVEPOINT batch")
            error = self.error_for(failure)
            if error is not failure:
                error.__cause__ = failure
            return error
        cursor.execute("RELEASE SAVEPOINT batch")
        return None

    def _add_kind(self, module: str, name: str) -> None:
        """Store a type, for which the database chooses a number, unless it is stored already."""
        with self.transaction() as cursor:
            query = "INSERT INTO kinds (module, name) VALUES (?, ?) ON CONFLICT DO NOTHING"
            self.run(cursor, (query, [(module, name)]))

    def create_tables(self, cursor: Cursor, create: Sequence[str]) -> None:
        """Create the tables by the statements `create`, if the database is empty.

        Raise OtherLayout if the database has the tables of another version.
        """
        cursor.execute(create[0])  # This creates the table `meta`, which has the version.
        cursor.execute("SELECT value FROM meta WHERE name = 'layout'")
        rows = cursor.fetchall()
        if not rows:
            for statement in create[1:]:
                cursor.execute(statement)
            insert = "INSERT INTO meta (name, value) VALUES ('layout', ?)"
            self.run(cursor, (insert, [(str(VERSION),)]))
        elif (version := rows[0][0]) != str(VERSION):
            raise OtherLayout(
                f"{self.place} has layout {version}; this version knows {VERSION}. "
                "Use the version that wrote it."
            )


__all__ = ["Cursor", "InvalidId", "OtherLayout", "ReadRows", "Store", "StoreUnavailable"]
