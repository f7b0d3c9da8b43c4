"""The store in PostgreSQL, for several processes and machines.

Long because one class has everything that differs from SQLite.

It uses psycopg 3 and its pool. PgBouncer may run each transaction on another server connection, so
the code uses no prepared statements (`prepare_threshold=None`) and no startup options.
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
from contextrender_bridge.store.base import ReadRows, Store
from contextrender_bridge.store.postgres_write import combined_statement, run_together
from contextrender_bridge.store.schema import TABLES, statements
from contextrender_bridge.store.writes import (
    REFUSED,
    StoreUnavailable,
    WriteBatch,
    WriteConflict,
)

NO_ANSWER: Final = "The database does not answer; try again."
NOT_REPLICATED: Final = "canceling wait for synchronous replication"
"""The start of the server's warning that no standby has confirmed a commit."""
OPENING_LOCK: Final = 7_391_002
"""The arbitrary number of the lock that a process holds while it creates the tables."""
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
    # The data is compressed already. Results of 2 KB are stored in their rows, which is faster.
    "ALTER TABLE nodes ALTER COLUMN data SET STORAGE EXTERNAL",
    "ALTER TABLE nodes SET (toast_tuple_target = 4080)",
]
CONFLICTS: Final = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.DivisionByZero,  # `combined_statement` causes it after a conflict.
)
"""The errors of a write that conflicts with another write. It can be tried again."""


class PostgresStore(Store):
    """The store in one PostgreSQL database, with a pool of connections.

    If the address has several hosts, it uses the host that accepts writes.
    """

    system = "postgresql"
    replacement = ("?", "%s")
    has_arrays = True
    ids_per_query = 5_000

    def __init__(self, address: str, settings: Settings) -> None:
        """Connect, and create the tables if the database is empty.

        Raise StoreUnavailable if that fails, OtherLayout if the tables are of another version.
        """
        super().__init__()
        # Add to the address what it does not say: time limits, a name, and hosts that can write.
        parameters = conninfo_to_dict(address)
        connect_timeout = settings.database_connect_timeout
        self._conninfo = make_conninfo(
            address,
            connect_timeout=int(max(connect_timeout, 1)),  # 0 is no limit
            application_name="contextrender",
            target_session_attrs=parameters.get("target_session_attrs", "read-write"),
        )
        self.place = f"postgresql://{parameters.get('host', '')}/{parameters.get('dbname', '')}"
        self._commit_seconds = settings.database_statement_timeout
        self._set_timeouts = (
            f"SET statement_timeout = {int(settings.database_statement_timeout * 1000)};"
            f"SET lock_timeout = {int(settings.database_lock_timeout * 1000)}"
        )
        # Each new connection gets the time limits above, by `_configure`.
        self._pool: ConnectionPool[Any] = ConnectionPool(
            self._conninfo,
            min_size=1,
            max_size=settings.database_connections,
            timeout=connect_timeout,
            reconnect_timeout=connect_timeout,
            kwargs={"prepare_threshold": None, "autocommit": True},
            configure=self._configure,
            open=True,
        )
        # Only one process at a time creates the tables.
        try:
            with self.transaction() as cursor:
                cursor.execute(f"SELECT pg_advisory_xact_lock({OPENING_LOCK})")
                self.create_tables(cursor, CREATE)
        except StoreUnavailable as failure:
            self.close()
            raise StoreUnavailable(f"{self.place}: {failure.__cause__ or failure}") from failure

    @staticmethod
    @override
    def uuid(value: Any) -> UUID:
        assert isinstance(value, UUID)
        return value

    @override
    def read(self, query: str, params: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query. If the connection was broken, send the query once more."""
        text = query.replace(*self.replacement)
        try:
            return self._read(text, params)
        except psycopg.OperationalError:
            # The server of this connection may be down: try once on another connection.
            try:
                return self._read(text, params)
            except psycopg.Error as failure:
                raise self.error_for(failure) from failure
        except psycopg.Error as failure:
            raise self.error_for(failure) from failure

    @override
    @contextmanager
    def transaction(self) -> Iterator[psycopg.Cursor[Any]]:
        """Return a cursor in a transaction, which is committed when the block ends."""
        with (
            self._write_connection() as (connection, start_commit_timer),
            connection.transaction(),
            connection.cursor() as cursor,
        ):
            yield cursor
            start_commit_timer()  # The commit comes next.

    @contextmanager
    def _write_connection(self) -> Iterator[tuple[psycopg.Connection[Any], Callable[[], None]]]:
        """Yield a connection, and a function that starts the time limit of the block's commit.

        Call the function right before the commit. When the block ends, what it committed is on
        disk, also on the standbys that must confirm it.
        Raise WriteConflict if the write conflicts with another one, StoreUnavailable if it fails.
        """
        notices: list[str] = []  # messages of the server, such as NOT_REPLICATED

        def add_notice(notice: psycopg.errors.Diagnostic) -> None:
            """Keep the text of a message of the server."""
            notices.append(notice.message_primary or "")

        try:
            with self._pool.connection() as connection:
                connection.add_notice_handler(add_notice)
                # Cancel a commit that takes too long. The server's own time limit does not include
                # a commit's wait for a standby.
                timer = threading.Timer(self._commit_seconds, connection.cancel_safe)
                timer.daemon = True
                try:
                    yield connection, timer.start
                finally:
                    timer.cancel()
                    connection.remove_notice_handler(add_notice)
        except CONFLICTS as conflict:
            raise WriteConflict from conflict
        except psycopg.Error as failure:
            raise self.error_for(failure) from failure
        # If the wait for a standby was cancelled, the server commits, and sends only a warning.
        if any(NOT_REPLICATED in notice for notice in notices):
            raise StoreUnavailable("No standby confirmed the write; it may not last. Try again.")

    @override
    def _write_all(self, batches: Sequence[WriteBatch]) -> list[Exception | None]:
        """Write batches in one transaction. Return an error, or None, for each batch.

        Write them in one round trip if a single statement can write each batch. If one of several
        batches conflicts or is refused, nothing is written. Then write all again, each in a
        savepoint, to find out which batch fails.
        """
        combined = [combined_statement(batch) for batch in batches]
        statements = [statement for statement in combined if statement is not None]
        if len(statements) < len(batches):  # A batch needs several statements.
            return super()._write_all(batches)
        try:
            with self._write_connection() as (connection, start_commit_timer):
                start_commit_timer()  # The statements include the commit, whose time is limited.
                run_together(connection, statements)
            return [None] * len(batches)
        except (WriteConflict, StoreUnavailable) as failure:
            if len(batches) == 1:
                return [failure]
            # If the database itself fails, writing again is of no use.
            is_caused_by_batch = isinstance(failure, WriteConflict) or failure.message == REFUSED
            if not is_caused_by_batch:
                raise
        # One of several batches failed, so write each in a savepoint.
        return super()._write_all(batches)

    @override
    def size(self) -> int:
        """Return the bytes of the tables and their indexes, partitions included."""
        # An ordinary table has a size of its own. A partitioned table has none; its partitions are
        # the leaves of the tree at levels above 0.
        query = (
            "SELECT COALESCE(SUM(pg_total_relation_size(tables.name::regclass) + COALESCE((SELECT "
            "SUM(pg_total_relation_size(relid)) FROM pg_partition_tree(tables.name::regclass) "
            "WHERE isleaf AND level > 0), 0)), 0) "
            "FROM (VALUES ('nodes'), ('edges'), ('quarantine')) AS tables (name)"
        )
        return int(self.read(query)[0][0])

    @contextmanager
    def snapshot(self) -> Iterator[ReadRows]:
        """Yield a function that reads rows by a query, all as they were when the block began."""
        with self._pool.connection() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

            def read(query: str, params: Sequence[Any] = ()) -> list[Any]:
                """Return the rows of a query."""
                return list(connection.execute(query.replace(*self.replacement), params).fetchall())

            yield read

    @override
    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._conninfo, prepare_threshold=None)

    @override
    def error_for(self, failure: Exception) -> Exception:
        """Return WriteConflict or StoreUnavailable for an error of the driver.

        Return any other error unchanged.
        """
        if isinstance(failure, CONFLICTS):
            return WriteConflict()
        if not isinstance(failure, psycopg.Error):
            return failure
        # An error without a code means that the connection broke. Codes that begin with 57P mean
        # that the server shuts down. In both cases the answer to a commit may be lost. With any
        # other code, the server has refused the statement.
        is_refused = failure.sqlstate is not None and not failure.sqlstate.startswith("57P")
        return StoreUnavailable(REFUSED if is_refused else NO_ANSWER)

    @override
    def close(self) -> None:
        self._pool.close()

    def _read(self, text: str, params: Sequence[Any]) -> list[Any]:
        """Return the rows of a query in psycopg's form. Raise the driver's errors."""
        with (
            span("store read", db__system__name=self.system),
            self._pool.connection() as connection,
        ):
            return list(connection.execute(text, params).fetchall())

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        """Set the time limits of a new connection of the pool."""
        connection.execute(self._set_timeouts)
