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
    FENCE,
    INSERT,
    JOIN,
    PART,
    PART_IN,
    PART_OUT,
    REMOVE,
    UPDATE,
    StoreUnavailable,
    WriteBatch,
    WriteConflict,
    WriteQueue,
    cutting,
    wiping,
)

CLAIM: Final = (
    "INSERT INTO meta (name, value) VALUES (?, ?) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value "
    "WHERE CAST(meta.value AS DOUBLE PRECISION) NOT BETWEEN ? AND ?"
)

NodeRow = tuple[UUID, int, int, bytes]
"""Id, revision, kind, data."""

Place = tuple[float, UUID]
"""Where a node stands among those listed: what it is listed by, and its id."""

EdgeRow = tuple[UUID, int, UUID, bytes | None]
"""Source, kind, target, data."""


Statement = tuple[str, Sequence[Sequence[Any]]]
"""With `?` for values, and rows of these."""

Read = Callable[..., list[Any]]
"""The rows of a query with `?` and its values."""


class Cursor(Protocol):
    """What both databases' cursors do."""

    @property
    def rowcount(self) -> int:
        """Rows changed."""

    def execute(self, query: Any, params: Any = ..., /) -> Any:
        """Runs one statement."""

    def executemany(self, query: Any, params: Any, /) -> Any:
        """Runs one statement for many rows; `rowcount` is then that of all."""

    def fetchall(self) -> Any:
        """Every row."""


class OtherLayout(Exception):
    """The database was written by a version of the program that lays it out otherwise."""


class Store(ABC):
    """Reads, and a queue of writes."""

    system: ClassVar[str]
    """The database's name in spans."""
    place: str
    """Where it is, for people; without a password."""

    def __init__(self) -> None:
        """Subclasses open the database first. `on_refused` is told of each failed write."""
        self.on_refused: Callable[[], None] = lambda: None
        self.kinds = TypeNumbers(
            lambda: self.read("SELECT number, module, name FROM kinds"), self._add_kind
        )
        self._queue = WriteQueue(self._write_all)

    # A driver's part.

    @abstractmethod
    def read(self, query: str, params: Sequence[Any] = ()) -> list[Any]:
        """Rows of what is committed. Raises StoreUnavailable."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Cursor]:
        """A cursor in a write transaction, committed (and on disk) where the block ends well.

        Raises StoreUnavailable where it did not, or may not have, become lasting.
        """

    @abstractmethod
    def run(self, cursor: Cursor, *statements: Statement) -> list[int]:
        """Runs statements in order, each for all its rows of values; how many rows each changed."""

    has_arrays = False
    """Whether several ids can be one value."""
    ids_at_once = 500
    """How many ids a statement takes."""

    def among(self, column: str, ids: Sequence[UUID]) -> tuple[str, Sequence[Any]]:
        """That a column has one of these ids: a condition with `?`, and its values."""
        if self.has_arrays:
            return f"{column} = ANY(?)", (list(ids),)
        return f"{column} IN ({','.join('?' * len(ids))})", ids

    @staticmethod
    @abstractmethod
    def uuid(value: Any) -> UUID:
        """An id as the driver gives it."""

    @abstractmethod
    def told(self, failure: Exception) -> Exception:
        """The error that callers get for a failure of the driver; others as they are."""

    @abstractmethod
    def connect(self) -> Any:
        """A connection of the driver's own, to be closed by whoever asked: for accounts."""

    @abstractmethod
    def close(self) -> None:
        """Closes every connection."""

    def probe(self) -> None:
        """Writes a little, as any request would. Raises StoreUnavailable."""
        self.claim("probe", 0.0)

    def claim(self, work: str, seconds: float) -> bool:
        """Whether it is this process that is to do what one process does in so many seconds: the
        first that asks; clocks may differ by as much. Raises StoreUnavailable."""
        now = time.time()
        values = (work, str(now), now - seconds, now + seconds)
        with self.transaction() as cursor:
            return self.run(cursor, (CLAIM, [values])) == [1]

    def size(self) -> int | None:
        """Bytes of its tables and indexes; None where they are those of files in the folder."""
        return None

    def reclaim(self) -> None:  # noqa: B027
        """Give back what deleted rows took, where the database does not do so by itself."""

    # Reading.

    def nodes(self, owner: UUID, ids: Iterable[UUID]) -> list[NodeRow]:
        """Those of the owner's nodes that are there, in any order."""
        query = "SELECT id, rev, kind, data FROM nodes WHERE owner = ?"
        found = self._at(query, [owner], "id", ids)
        return [(self.uuid(id), rev, kind, bytes(data)) for id, rev, kind, data in found]

    def ids_between(self, owner: UUID, first: UUID, last: UUID, limit: int = -1) -> list[UUID]:
        """Return the ids of the owner's nodes from `first` to `last`, in order; at most `limit`."""
        query = "SELECT id FROM nodes WHERE owner = ? AND id >= ? AND id <= ? ORDER BY id"
        if limit >= 0:
            query += f" LIMIT {limit}"
        return [self.uuid(id) for (id,) in self.read(query, (owner, first, last))]

    def stamp(self, owner: UUID, id: UUID) -> tuple[int, float | None] | None:
        """The revision of one of the owner's nodes, and what it is listed by; None if it is not
        there."""
        query = "SELECT rev, listed FROM nodes WHERE owner = ? AND id = ?"
        found = self.read(query, (owner, id))
        return (found[0][0], found[0][1]) if found else None

    def _at(
        self, query: str, values: Sequence[Any], column: str, ids: Iterable[UUID]
    ) -> Iterator[Any]:
        """The rows of a query whose column has one of these ids, so many at once."""
        for some in batched(ids, self.ids_at_once):
            among, more = self.among(column, some)
            yield from self.read(f"{query} AND {among}", (*values, *more))

    def edges(self, owner: UUID, ids: Iterable[UUID]) -> list[EdgeRow]:
        """The edges from and to some of the owner's nodes; one between two of them comes twice."""
        return [
            (self.uuid(source), kind, self.uuid(target), data and bytes(data))
            for some in batched(ids, self.ids_at_once)
            for source, kind, target, data in self.read(*self._edges_at(owner, some))
        ]

    def nodes_with_edges(
        self, owner: UUID, ids: Sequence[UUID]
    ) -> tuple[list[NodeRow], list[EdgeRow]]:
        """In one statement, `nodes` and `edges` of a few ids."""
        among, values = self.among("id", ids)
        edges, ends = self._edges_at(owner, ids, "source, kind, target, data, NULL")
        query = f"SELECT id, kind, NULL, data, rev FROM nodes WHERE owner = ? AND {among}"
        nodes: list[NodeRow] = []
        found: list[EdgeRow] = []
        for first, kind, target, data, rev in self.read(
            f"{query} UNION ALL {edges}", (owner, *values, *ends)
        ):
            if target is None:
                nodes.append((self.uuid(first), rev, kind, bytes(data)))
            else:
                found.append((self.uuid(first), kind, self.uuid(target), data and bytes(data)))
        return nodes, found

    def _edges_at(
        self, owner: UUID, ids: Sequence[UUID], columns: str = "source, kind, target, data"
    ) -> tuple[str, Sequence[Any]]:
        out, sources = self.among("source", ids)
        into, targets = self.among("target", ids)
        query = (
            f"SELECT {columns} FROM edges WHERE owner = ? AND {out} UNION ALL "
            f"SELECT {columns} FROM edges {BY_TARGET} WHERE owner = ? AND {into}"
        )
        return query, (owner, *sources, owner, *targets)

    def edges_out(
        self, owner: UUID, ids: Iterable[UUID], kind: int
    ) -> Iterator[tuple[UUID, UUID, bytes | None]]:
        """The edges of one kind from some of the owner's nodes: source, target, data."""
        query = "SELECT source, target, data FROM edges WHERE owner = ? AND kind = ?"
        for source, target, data in self._at(query, [owner, kind], "source", ids):
            yield self.uuid(source), self.uuid(target), data and bytes(data)

    def sources(self, owner: UUID, ids: Iterable[UUID], kind: int) -> Iterator[UUID]:
        """Where the edges of one kind to some of the owner's nodes come from."""
        query = f"SELECT source FROM edges {BY_TARGET} WHERE owner = ? AND kind = ?"
        for (source,) in self._at(query, [owner, kind], "target", ids):
            yield self.uuid(source)

    def bytes_of(self, owner: UUID, ids: Sequence[UUID]) -> int:
        """What the rows of the owner's nodes, and of the edges from them, hold."""
        total = 0
        for table, column in (("nodes", "id"), ("edges", "source")):
            query = f"SELECT COALESCE(SUM(LENGTH(data)), 0) FROM {table} WHERE owner = ?"
            total += sum(int(size) for (size,) in self._at(query, [owner], column, ids))
        return total

    def sizes(self, owner: UUID, ids: Iterable[UUID]) -> Iterator[tuple[UUID, int]]:
        """The bytes of each of the owner's nodes that is there."""
        query = "SELECT id, LENGTH(data) FROM nodes WHERE owner = ?"
        for id, size in self._at(query, [owner], "id", ids):
            yield self.uuid(id), int(size)

    def listed(self, owner: UUID, kind: int, before: Place | None, limit: int) -> list[UUID]:
        """The newest of the owner's nodes of a kind that are listed before a place."""
        when, id = before or (float("inf"), owner)
        rows = self.read(
            "SELECT id FROM nodes WHERE owner = ? AND kind = ? AND listed IS NOT NULL "
            "AND (listed, id) < (?, ?) "
            "ORDER BY listed DESC, id DESC LIMIT ?",
            (owner, kind, when, id, limit),
        )
        return [self.uuid(id) for (id,) in rows]

    # Writing.

    def write(self, unit: WriteBatch) -> None:
        """Write a batch in one transaction; it is on disk when this returns.

        Raises WriteConflict or StoreUnavailable. Then nothing is written, or, where the answer of
        a remote database was lost, perhaps everything: writing a batch again changes nothing.
        """
        try:
            with span("store write", db__system__name=self.system):
                self._queue.write(unit)
        except StoreUnavailable:
            self.on_refused()
            raise
        if unit.remove:
            self.reclaim()

    def apply(self, cursor: Cursor, unit: WriteBatch) -> None:
        """A unit within a transaction. Raises WriteConflict."""
        gone = [(owner, id) for owner, id, _ in unit.remove]
        found = ((UPDATE, unit.update), (FENCE, unit.fence), (REMOVE, unit.remove))
        expected: list[Statement] = [(INSERT, unit.insert), *found]
        rest: list[Statement] = [(PART_OUT, gone), (PART_IN, gone)]
        rest += [(PART, unit.part), (JOIN, unit.join)]
        for some, statements in ((unit.cut, cutting), (unit.wipe, wiping)):
            rest += [(query, [row]) for owner, ids in some for query, row in statements(owner, ids)]
        changed = self.run(cursor, *expected, *rest)
        # Every row must be found, or be new: else somebody was faster, and nothing of this stays.
        if changed[: len(expected)] != [len(rows) for _, rows in expected]:
            raise WriteConflict

    def _write_all(self, units: Sequence[WriteBatch]) -> list[Exception | None]:
        """One transaction, a savepoint each: one that fails takes no other with it."""
        failures: list[Exception | None] = []
        with self.transaction() as cursor:
            if len(units) == 1:
                self.apply(cursor, units[0])
                failures.append(None)
            else:
                failures += [self._write_one(cursor, unit) for unit in units]
        return failures

    def _write_one(self, cursor: Cursor, unit: WriteBatch) -> Exception | None:
        cursor.execute("SAVEPOINT one")
        try:
            self.apply(cursor, unit)
        except Exception as failure:
            cursor.execute("ROLLBACK TO SAVEPOINT one")
            cursor.execute("RELEASE SAVEPOINT one")
            told = self.told(failure)
            told.__cause__ = None if told is failure else failure
            return told
        cursor.execute("RELEASE SAVEPOINT one")
        return None

    def _add_kind(self, module: str, name: str) -> None:
        with self.transaction() as cursor:
            query = "INSERT INTO kinds (module, name) VALUES (?, ?) ON CONFLICT DO NOTHING"
            self.run(cursor, (query, [(module, name)]))

    def make_tables(self, cursor: Cursor, create: Sequence[str]) -> None:
        """Makes them in an empty database. Raises OtherLayout for one that has others."""
        cursor.execute(create[0])
        cursor.execute("SELECT value FROM meta WHERE name = 'layout'")
        found = cursor.fetchall()
        if not found:
            for statement in create[1:]:
                cursor.execute(statement)
            insert = "INSERT INTO meta (name, value) VALUES ('layout', ?)"
            self.run(cursor, (insert, [(str(VERSION),)]))
        elif found[0][0] != str(VERSION):
            raise OtherLayout(
                f"{self.place} has layout {found[0][0]}; this version knows {VERSION}. "
                "Use the version that wrote it."
            )


__all__ = ["Cursor", "OtherLayout", "Read", "Store", "StoreUnavailable"]
