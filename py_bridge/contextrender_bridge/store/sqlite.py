"""The store in one SQLite file: nothing to install, one machine.

Long because one class has everything that differs from PostgreSQL.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, override
from uuid import UUID, SafeUUID

from contextrender_bridge.base.spans import span
from contextrender_bridge.store.base import InvalidId, Store
from contextrender_bridge.store.schema import TABLES, statements
from contextrender_bridge.store.sqlite_file import (
    INTEGRITY_CHECK,
    SqliteFile,
    integrity_errors,
    make_file,
)
from contextrender_bridge.store.writes import (
    BY_TARGET,
    REFUSED,
    StoreDamaged,
    StoreUnavailable,
)

LOCK_TIMEOUT_SECONDS = 5.0
ID_BYTES: Final = 16
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
LOG_BYTES: Final = 16 * 2**20
"""The size to which SQLite cuts a larger write-ahead log after copying all of it into the file."""
PAGE_BYTES: Final = 4_096
"""A write adds every page that it changes to the log. With smaller pages, a render would write
less, but a result would take more room, and a power failure during the write of a disk sector of
4 KB could damage pages that the log does not have."""
CHECKPOINT_PAGES: Final = 2_000
"""The pages in the log, 8 MB, after which SQLite copies them into the file. Pages that many writes
change are then copied less often than with SQLite's default of 1,000 pages."""
VACUUM_PAGES: Final = 500
"""The maximum number of pages that one step of `reclaim` removes. A step stops other writes for
some ms."""
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
# The driver stores each id as bytes. An invalid id is stored as it was.
sqlite3.register_adapter(UUID, attrgetter("bytes"))
sqlite3.register_adapter(InvalidId, attrgetter("value"))


class SqliteStore(Store):
    """The store in one SQLite file. Readers never wait for writers; writers wait in a queue."""

    system = "sqlite"
    replacement = (BY_TARGET, "INDEXED BY edges_target")

    def __init__(self, path: Path) -> None:
        """Open the file. If it is missing, create it with its tables, private to its owner."""
        super().__init__()
        self.place = str(path)
        # With mode=rw SQLite never creates a file in place of one that was removed.
        self._address = f"{path.absolute().as_uri()}?mode=rw"
        self._idle: list[sqlite3.Connection] = []
        self._idle_lock = threading.Lock()
        self._is_damaged = self._is_closed = False
        make_file(path)
        self._file = SqliteFile.open(path)
        try:
            self._create_tables()
        except BaseException:
            self.close()
            raise

    def _create_tables(self) -> None:
        """Set the page size and the modes of an empty file, and create its tables."""
        with self._connection() as connection:
            # These only affect an empty file. INCREMENTAL lets `reclaim` shorten the file.
            connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
        with self.transaction() as cursor:
            self.create_tables(cursor, CREATE)

    @staticmethod
    @override
    def uuid(value: Any) -> UUID:
        if type(value) is not bytes or len(value) != ID_BYTES:
            return InvalidId(value)
        # The constructor checks its arguments, which takes twice as long as all of this.
        id = UUID.__new__(UUID)
        object.__setattr__(id, "int", int.from_bytes(value))
        object.__setattr__(id, "is_safe", SafeUUID.unknown)
        return id

    @override
    def read(self, query: str, params: Sequence[Any] = ()) -> list[Any]:
        with (
            span("store read", db__system__name=self.system),
            self._connection(self._file.check_before_read) as connection,
        ):
            return connection.execute(query.replace(*self.replacement), params).fetchall()

    @override
    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Cursor]:
        """Return a cursor in a transaction, which is committed when the block ends.

        First wait for other writers. Check the file before the transaction begins, and the log
        after it has begun, because a write to a file that was replaced or damaged would be lost.
        """
        with self._connection(self._file.check_before_transaction) as connection:
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
        connection = sqlite3.connect(self._address, uri=True)
        connection.text_factory = _decode
        return connection

    def copy_to(self, target: Path) -> None:
        """Copy all committed rows into another file, while others read and write."""
        with self._connection() as connection, closing(sqlite3.connect(target)) as copy:
            connection.backup(copy)

    @override
    def error_for(self, failure: Exception) -> Exception:
        """Return StoreDamaged or StoreUnavailable, according to the code of an SQLite error."""
        if isinstance(failure, sqlite3.Error):
            code = _code(failure)
            if code in DAMAGE:
                return StoreDamaged()
            return StoreUnavailable(FAILURES.get(code, REFUSED))
        return failure

    @override
    def probe(self) -> None:
        """Write one row. If damage was found before, first check whether the file is repaired.

        Raise StoreDamaged if it is not.
        """
        if self._is_damaged:
            with self._connection() as connection:
                (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                self._is_damaged = answer != "ok"
            if self._is_damaged:
                raise StoreDamaged
        super().probe()

    @override
    def file_damage(self) -> list[str]:
        try:
            return integrity_errors(self.read(INTEGRITY_CHECK))
        except StoreDamaged as damage:
            return [damage.message]

    @override
    def reclaim(self) -> None:
        """Remove free pages from the file in steps, and empty the log unless a reader uses it."""
        with self._connection() as connection:
            # An error means that another process holds a lock. The next deletion tries again.
            with suppress(sqlite3.OperationalError):
                self._remove_free_pages(connection)
                # Without a timeout the checkpoint fails at once if another connection reads.
                connection.execute("PRAGMA busy_timeout=0")
                self._run_pragma(connection, "wal_checkpoint(TRUNCATE)")
            connection.execute(f"PRAGMA busy_timeout={int(LOCK_TIMEOUT_SECONDS * 1000)}")

    def _remove_free_pages(self, connection: sqlite3.Connection) -> None:
        """Remove free pages in steps of VACUUM_PAGES. Stop when a step removes none."""
        free_pages = _count_free_pages(connection)
        while free_pages:
            self._run_pragma(connection, f"incremental_vacuum({VACUUM_PAGES})")
            remaining_pages = _count_free_pages(connection)
            if remaining_pages == free_pages:
                return  # For example, the file has no auto_vacuum.
            free_pages = remaining_pages

    def _run_pragma(self, connection: sqlite3.Connection, pragma: str) -> None:
        """Run a pragma that writes, while no other thread of this process writes."""
        with self._queue.write_lock:
            connection.execute(f"PRAGMA {pragma}").fetchall()

    def close(self) -> None:
        """Close all idle connections. As the last one closes, SQLite copies the log into the file.

        A second call does not close the file again.
        """
        with self._idle_lock:
            while self._idle:
                self._close_connection(self._idle.pop())
        if not self._is_closed:
            self._is_closed = True
            self._file.close()

    @contextmanager
    def _connection(self, check: Callable[[], None] | None = None) -> Iterator[sqlite3.Connection]:
        """Yield an idle or a new connection, which becomes idle again after the block.

        First run `check`, by default only the check of the log. If an operation of SQLite fails,
        raise StoreUnavailable, and close the connection unless it was only busy.
        """
        (check or self._file.check_log)()
        with self._idle_lock:
            connection = self._idle.pop() if self._idle else None
        try:
            if connection is None:
                connection = self._open_connection()
            yield connection
        except sqlite3.Error as failure:
            self._is_damaged |= _code(failure) in DAMAGE
            if connection is not None and _code(failure) != sqlite3.SQLITE_BUSY:
                # The connection may have cached wrong contents of the file: do not use it again.
                self._close_connection(connection)
                connection = None
            raise self.error_for(failure) from failure
        finally:
            if connection is not None:
                with self._idle_lock:
                    self._idle.append(connection)

    def _open_connection(self) -> sqlite3.Connection:
        """Return a new connection that has opened the log. Any thread may use it."""
        connection = sqlite3.connect(
            self._address,
            uri=True,
            timeout=LOCK_TIMEOUT_SECONDS,
            check_same_thread=False,
            isolation_level=None,
        )
        connection.text_factory = _decode
        # FULL syncs the log at every commit, so that committed rows survive a power cut. With
        # NORMAL they would only survive the end of the process.
        connection.execute("PRAGMA synchronous=FULL")
        # Overwrite deleted rows, which would otherwise be readable in free pages.
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute(f"PRAGMA journal_size_limit={LOG_BYTES}")
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        # Open the log and count the connection, while no other thread opens or closes one.
        with self._file.connection_lock:
            self._file.check_log()
            connection.execute("PRAGMA schema_version")  # SQLite opens the log at the first read.
            self._file.add_connection()
        return connection

    def _close_connection(self, connection: sqlite3.Connection) -> None:
        """Close a connection. Copy the log into the file only if the log is undamaged."""
        with self._file.connection_lock:
            # When the last connection closes, SQLite copies the log into the file. It must not copy
            # a damaged log.
            if not self._file.can_save_log():
                connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)
            connection.close()
            self._file.remove_connection()


def _decode(text: bytes) -> str:
    """Return a text of the file. A damaged row may have bytes that are no text."""
    return text.decode(errors="replace")


def _code(failure: sqlite3.Error) -> int:
    """Return the primary code of SQLite's error, which is the lowest byte of the extended code."""
    return getattr(failure, "sqlite_errorcode", 0) & 0xFF


def _count_free_pages(connection: sqlite3.Connection) -> int:
    """Return the number of pages of the file that are not used."""
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])
