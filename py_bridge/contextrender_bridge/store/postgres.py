"""The store in PostgreSQL, for many processes and machines.

Long because one class has all that PostgreSQL does in its own way.

psycopg 3 and its pool. Nothing is kept on a connection between two transactions, so PgBouncer may
hand each to another server connection (`prepare_threshold=None`, no startup options).
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, override
from uuid import UUID

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool

from contextrender_bridge.base.settings import Settings
from contextrender_bridge.base.spans import span
from contextrender_bridge.store.base import Cursor, Read, Statement, Store
from contextrender_bridge.store.postgres_write import Combined, one_statement, run_together
from contextrender_bridge.store.schema import TABLES, statements
from contextrender_bridge.store.writes import REFUSED, StoreUnavailable, WriteBatch, WriteConflict

NO_ANSWER: Final = "The database does not answer; try again."
NOT_LASTING: Final = "canceling wait for synchronous replication"
OPENING_LOCK: Final = 7_391_002
CREATE = [
    *statements(
        TABLES,
        serial="SMALLINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        uuid="UUID",
        integer="BIGINT",
        small="SMALLINT",
        real="DOUBLE PRECISION",
        bytes="BYTEA",
        without_rowid="",
        partition="",
    ),
    # What is compressed is not compressed again, and a result of 2 KB stays in its row.
    "ALTER TABLE nodes ALTER COLUMN data SET STORAGE EXTERNAL",
    "ALTER TABLE nodes SET (toast_tuple_target = 4080)",
]
# Of two that wait for each other's rows, one runs again.
RACES: Final = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.DivisionByZero,  # py_bridge/contextrender_bridge/store/postgres_write.py
)


class PostgresStore(Store):
    """A pool of connections to one database, or to whichever of several hosts takes writes."""

    system = "postgresql"

    def __init__(self, address: str, limits: Settings) -> None:
        """Connect, and make the tables. Raise StoreUnavailable if that fails."""
        super().__init__()
        parameters = conninfo_to_dict(address)
        wait = limits.database_connect_timeout
        self._conninfo = make_conninfo(
            address,
            connect_timeout=int(max(wait, 1)),
            application_name="contextrender",
            target_session_attrs=parameters.get("target_session_attrs", "read-write"),
        )
        self.place = f"postgresql://{parameters.get('host', '')}/{parameters.get('dbname', '')}"
        self._commit_seconds = limits.database_statement_timeout
        self._limits = (
            f"SET statement_timeout = {int(limits.database_statement_timeout * 1000)};"
            f"SET lock_timeout = {int(limits.database_lock_timeout * 1000)}"
        )
        self._pool: ConnectionPool[Any] = ConnectionPool(
            self._conninfo,
            min_size=1,
            max_size=limits.database_connections,
            timeout=wait,
            reconnect_timeout=wait,
            kwargs={"prepare_threshold": None, "autocommit": True},
            configure=self._configure,
            open=True,
        )
        try:
            with self.transaction() as cursor:
                cursor.execute(f"SELECT pg_advisory_xact_lock({OPENING_LOCK})")
                self.make_tables(cursor, CREATE)
        except StoreUnavailable as failure:
            self.close()
            raise StoreUnavailable(f"{self.place}: {failure.__cause__ or failure}") from failure

    @override
    def run(self, cursor: Cursor, *statements: Statement) -> list[int]:
        changed: list[int] = []
        for query, rows in statements:
            if rows:
                cursor.executemany(_with_percents(query), rows)
            changed.append(cursor.rowcount if rows else 0)
        return changed

    has_arrays = True
    ids_at_once = 5_000

    @staticmethod
    @override
    def uuid(value: Any) -> UUID:
        assert isinstance(value, UUID)
        return value

    @override
    def read(self, query: str, params: Sequence[Any] = ()) -> list[Any]:
        text = _with_percents(query)
        try:
            return self._read(text, params)
        except psycopg.OperationalError:
            # The connection may have been to a server that is no longer there: once more.
            try:
                return self._read(text, params)
            except psycopg.Error as failure:
                raise self.error_for(failure) from failure
        except psycopg.Error as failure:
            raise self.error_for(failure) from failure

    @override
    @contextmanager
    def transaction(self) -> Iterator[psycopg.Cursor[Any]]:
        with (
            self._lasting() as (connection, start_limit),
            connection.transaction(),
            connection.cursor() as cursor,
        ):
            yield cursor
            # The server's own limit does not count a commit's wait for a standby.
            start_limit()

    @contextmanager
    def _lasting(self) -> Iterator[tuple[psycopg.Connection[Any], Callable[[], None]]]:
        """Return a connection, and a function that starts the time limit of its last commit.

        When the block ends, its commits are on disk on every machine that must have them.
        """
        notices: list[str] = []

        def note(notice: psycopg.errors.Diagnostic) -> None:
            notices.append(notice.message_primary or "")

        try:
            with self._pool.connection() as connection:
                connection.add_notice_handler(note)
                limit = threading.Timer(self._commit_seconds, connection.cancel_safe)
                limit.daemon = True
                try:
                    yield connection, limit.start
                finally:
                    limit.cancel()
                    connection.remove_notice_handler(note)
        except RACES as lost:
            raise WriteConflict from lost
        except psycopg.Error as failure:
            raise self.error_for(failure) from failure
        if any(NOT_LASTING in notice for notice in notices):
            raise StoreUnavailable("No standby confirmed the write; it may not last. Try again.")

    @override
    def _write_all(self, units: Sequence[WriteBatch]) -> list[Exception | None]:
        """Write batches in one round trip, which is a transaction.

        If another request was faster, write them as in other databases, to find which it hit.
        """
        single = [statement for unit in units if (statement := one_statement(unit)) is not None]
        if len(single) == len(units):
            try:
                self._write_at_once(single)
                return [None] * len(units)
            except (WriteConflict, StoreUnavailable) as failure:
                if len(units) == 1:
                    return [failure]
                if not isinstance(failure, WriteConflict) and failure.message != REFUSED:
                    raise
        return super()._write_all(units)

    def _write_at_once(self, statements: Sequence[Combined]) -> None:
        with self._lasting() as (connection, start_limit):
            start_limit()
            run_together(connection, statements)

    @override
    def size(self) -> int:
        # A partitioned table holds nothing itself, and only such a one has a tree of parts.
        query = (
            "SELECT COALESCE(SUM(pg_total_relation_size(of.name::regclass) + COALESCE((SELECT "
            "SUM(pg_total_relation_size(relid)) FROM pg_partition_tree(of.name::regclass) "
            "WHERE isleaf AND level > 0), 0)), 0) "
            "FROM (VALUES ('nodes'), ('edges'), ('quarantine')) AS of (name)"
        )
        return int(self.read(query)[0][0])

    @contextmanager
    def snapshot(self) -> Iterator[Read]:
        """Return a function that reads what is committed now, whatever is written meanwhile."""
        with self._pool.connection() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

            def read(query: str, params: Sequence[Any] = ()) -> list[Any]:
                return list(connection.execute(_with_percents(query), params).fetchall())

            yield read

    @override
    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._conninfo, prepare_threshold=None)

    @override
    def error_for(self, failure: Exception) -> Exception:
        if isinstance(failure, RACES):
            return WriteConflict()
        if not isinstance(failure, psycopg.Error):
            return failure
        # With a code of its own it was refused; without one, or shutting down, it may have lost
        # the answer to a commit.
        refused = failure.sqlstate is not None and not failure.sqlstate.startswith("57P")
        return StoreUnavailable(REFUSED if refused else NO_ANSWER)

    @override
    def close(self) -> None:
        self._pool.close()

    def _read(self, text: str, params: Sequence[Any]) -> list[Any]:
        with span("store read", db__system__name=self.system), self._pool.connection() as link:
            return list(link.execute(text, params).fetchall())

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(self._limits)


def _with_percents(query: str) -> str:
    return query.replace("?", "%s")
