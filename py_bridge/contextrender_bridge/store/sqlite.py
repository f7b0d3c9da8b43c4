"""The store in one SQLite file: nothing to install, one machine."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, override
from uuid import UUID

from contextrender_bridge.base.spans import span
from contextrender_bridge.store.base import Cursor, Store
from contextrender_bridge.store.schema import TABLES, statements
from contextrender_bridge.store.sqlite_file import SqliteFile, make_file
from contextrender_bridge.store.writes import (
    BY_TARGET,
    REFUSED,
    Statement,
    StoreDamaged,
    StoreUnavailable,
)

LOCK_TIMEOUT_SECONDS = 5.0
FILE: Final = "store.db"
"""The name of the file in a data folder."""
FAILURES: Final = {
    sqlite3.SQLITE_FULL: "The disk is full, so nothing was written: make room.",
    sqlite3.SQLITE_READONLY: "The store cannot be written to; nothing was written.",
    sqlite3.SQLITE_CANTOPEN: "The store's file cannot be opened; nothing was written.",
    sqlite3.SQLITE_IOERR: "The disk of the store fails; nothing was written.",
}
"""The sentence that a caller gets for each of SQLite's failures."""
DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
INTEGRITY_CHECK: Final = "PRAGMA integrity_check(20)"
"""The check of every page and index of a file, up to so many errors."""
JOURNAL_LIMIT: Final = 16 * 2**20
PAGE_BYTES: Final = 8_192
"""A page holds three results of 2 KB with their calls; of pages of 4 KB a third stays empty."""
PAGES_AT_ONCE: Final = 500
"""Pages given back in one step, which keeps others from writing for some milliseconds."""
CREATE = statements(
    TABLES,
    serial="INTEGER PRIMARY KEY",
    uuid="BLOB",
    integer="INTEGER",
    small="INTEGER",
    real="REAL",
    bytes="BLOB",
    without_rowid=" WITHOUT ROWID",
    partition="",
)


class SqliteStore(Store):
    """One file and its idle connections: readers never wait, writers queue."""

    system = "sqlite"

    def __init__(self, path: Path) -> None:
        """Open the file, which is created private, and make its tables."""
        super().__init__()
        self.place = str(path)
        # It is never made anew where it has gone.
        self._address = f"{path.absolute().as_uri()}?mode=rw"
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._damaged = self._closed = False
        make_file(path)
        self._file = SqliteFile.open(path)
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        with self._connection() as connection:
            # Only an empty file takes these. Pages freed by deletes can be given back.
            connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
        with self.transaction() as cursor:
            self.make_tables(cursor, CREATE)

    @override
    def run(self, cursor: Cursor, *statements: Statement) -> list[int]:
        changed: list[int] = []
        for query, rows in statements:
            if rows:
                cursor.executemany(_by_target(query), [_plain(row) for row in rows])
            changed.append(cursor.rowcount if rows else 0)
        return changed

    @staticmethod
    @override
    def uuid(value: Any) -> UUID:
        try:
            return UUID(None, value)  # the second argument are the bytes
        except (TypeError, ValueError, AssertionError):
            raise StoreDamaged from None

    @override
    def read(self, query: str, params: Sequence[Any] = ()) -> list[Any]:
        self._file.check_whole()
        with span("store read", db__system__name=self.system), self._connection() as connection:
            return connection.execute(_by_target(query), _plain(params)).fetchall()

    @override
    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Cursor]:
        self._file.check_whole(is_written=True)
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._file.check_before_write()
                yield connection.cursor()
                connection.execute("COMMIT")
                self._file.record_write()
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @override
    def connect(self) -> sqlite3.Connection:
        self._file.check_whole()
        return sqlite3.connect(self._address, uri=True)

    def copy_to(self, target: Path) -> None:
        """Copy what is committed into another file; nobody waits for it."""
        with self._connection() as connection, closing(sqlite3.connect(target)) as copy:
            connection.backup(copy)

    @override
    def error_for(self, failure: Exception) -> Exception:
        if isinstance(failure, sqlite3.Error):
            code = _code(failure)
            if code in DAMAGE:
                return StoreDamaged()
            return StoreUnavailable(FAILURES.get(code, REFUSED))
        return failure

    @override
    def probe(self) -> None:
        if self._damaged:
            with self._connection() as connection:
                (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                self._damaged = answer != "ok"
            if self._damaged:
                raise StoreDamaged
        super().probe()

    @override
    def file_damage(self) -> list[str]:
        try:
            return integrity_errors(self.read(INTEGRITY_CHECK))
        except StoreDamaged as damage:
            return [damage.message]

    def reclaim(self) -> None:
        """Shrink the file a little at a time and empty the log, unless somebody is reading."""
        with self._connection() as connection:

            def step(pragma: str) -> None:
                with self._queue.write_lock:
                    connection.execute(f"PRAGMA {pragma}").fetchall()

            with suppress(sqlite3.OperationalError):
                free, before = _free_pages(connection), 0
                while free and free != before:
                    step(f"incremental_vacuum({PAGES_AT_ONCE})")
                    free, before = _free_pages(connection), free
                connection.execute("PRAGMA busy_timeout=0")
                step("wal_checkpoint(TRUNCATE)")
            connection.execute(f"PRAGMA busy_timeout={int(LOCK_TIMEOUT_SECONDS * 1000)}")

    def close(self) -> None:
        """Close every connection; the last one copies the write-ahead log into the file."""
        with self._lock:
            while self._idle:
                self._end(self._idle.pop())
        if not self._closed:
            self._closed = True
            self._file.close()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Return a connection for the block. Raise StoreUnavailable for what SQLite refuses."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        try:
            if connection is None:
                connection = self._open()
            self._file.check_log()  # SQLite crashes where it reads an index that is cut
            yield connection
        except sqlite3.Error as failure:
            self._damaged |= _code(failure) in DAMAGE
            if connection is not None and _code(failure) != sqlite3.SQLITE_BUSY:
                self._end(connection)  # what it knows of the file may be wrong
                connection = None
            raise self.error_for(failure) from failure
        finally:
            if connection is not None:
                with self._lock:
                    self._idle.append(connection)

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._address,
            uri=True,
            timeout=LOCK_TIMEOUT_SECONDS,
            check_same_thread=False,
            isolation_level=None,
        )
        # A reply of success means "on disk": FULL syncs the log at every commit, so it outlives a
        # power cut. NORMAL would outlive only the process.
        connection.execute("PRAGMA synchronous=FULL")
        # What is deleted is overwritten, not left readable in free pages.
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute(f"PRAGMA journal_size_limit={JOURNAL_LIMIT}")
        with self._file.connecting:
            self._file.check_log()
            connection.execute("PRAGMA schema_version")  # opens the log
            self._file.add_connection()
        return connection

    def _end(self, connection: sqlite3.Connection) -> None:
        with self._file.connecting:
            if not self._file.can_save_log():
                connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)
            connection.close()
            self._file.remove_connection()


def integrity_errors(answers: Sequence[tuple[str]]) -> list[str]:
    """Return the errors among the answers to INTEGRITY_CHECK, each in one line."""
    lines = [line.strip() for (answer,) in answers for line in answer.splitlines()]
    return [line for line in lines if line not in ("", "ok") and not line.startswith("***")]


def _by_target(query: str) -> str:
    return query.replace(BY_TARGET, "INDEXED BY edges_target")


def _plain(row: Sequence[Any]) -> list[Any]:
    return [value.bytes if type(value) is UUID else value for value in row]


def _code(failure: sqlite3.Error) -> int:
    """Return SQLite's primary number of a failure."""
    return getattr(failure, "sqlite_errorcode", 0) & 0xFF


def _free_pages(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])
