"""Counts shared by the processes on one data folder: calls, failed logins, used codes.

A small SQLite file that is never synced: after a power cut its counts begin anew.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contextrender_bridge.base.errors import ServerError

FILE = "counts.db"
PATIENCE_SECONDS = 5.0
TABLES = """
CREATE TABLE IF NOT EXISTS calls (user TEXT PRIMARY KEY, left REAL, since REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failures (key TEXT, at REAL);
CREATE INDEX IF NOT EXISTS failures_of ON failures (key, at);
CREATE INDEX IF NOT EXISTS failures_at ON failures (at);
CREATE TABLE IF NOT EXISTS codes (id TEXT PRIMARY KEY, expires REAL) WITHOUT ROWID;
"""


class Counts:
    """The file, opened when something is counted first; safe between threads and processes."""

    def __init__(self, data: Path) -> None:
        """In that folder."""
        self._path = data / FILE
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Nobody else counts until the block ends. Raises ServerError where it cannot be kept."""
        with self._lock:
            try:
                connection = self._connection = self._connection or self._open()
                with connection:
                    connection.execute("BEGIN IMMEDIATE")
                    yield connection
            except sqlite3.Error as failure:
                raise ServerError("Calls cannot be counted now; try again.") from failure

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")
        connection.executescript(TABLES)
        return connection
