"""Counts shared by the processes on one data folder: calls, failed logins, used codes.

A small SQLite file that is never synced: after a power cut its counts begin anew.
"""

import ipaddress
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path

from contextrender_bridge.base.errors import ServerError

FILE = "counts.db"
MOST = 10
SECONDS = 300.0
REMEMBERED = 10_000
"""Failures kept; the oldest are forgotten first."""
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


class Attempts:
    """Failures of the last while, in whichever process of the data folder."""

    def __init__(self, counts: Counts) -> None:
        """Up to `MOST` within `SECONDS`, for each key."""
        self._counts = counts

    def begin(self, *keys: str) -> int:
        """0, and the attempt counts as failed until it is forgiven; or the seconds to wait."""
        now = time.time()
        with self._counts.changing() as file:
            file.execute("DELETE FROM failures WHERE at <= ?", (now - SECONDS,))
            if wait := max(self._wait(file, key, now) for key in keys):
                return ceil(wait)
            rows = [(key, now) for key in keys]
            file.executemany("INSERT INTO failures (key, at) VALUES (?, ?)", rows)
            file.execute(
                "DELETE FROM failures WHERE rowid IN "
                "(SELECT rowid FROM failures ORDER BY at DESC LIMIT -1 OFFSET ?)",
                (REMEMBERED,),
            )
        return 0

    def forgive(self, *keys: str) -> None:
        """It went well: one failure less."""
        with self._counts.changing() as file:
            for key in keys:
                file.execute(
                    "DELETE FROM failures WHERE rowid = "
                    "(SELECT rowid FROM failures WHERE key = ? ORDER BY at DESC LIMIT 1)",
                    (key,),
                )

    def _wait(self, file: sqlite3.Connection, key: str, now: float) -> float:
        query = "SELECT COUNT(*), MIN(at) FROM failures WHERE key = ?"
        count, oldest = file.execute(query, (key,)).fetchone()
        return 0.0 if count < MOST else oldest + SECONDS - now


def network_of(address: str) -> str:
    """The address; of IPv6 its network, whose 2^64 addresses are one caller's."""
    try:
        known = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    return str(known.ipv4_mapped or ipaddress.IPv6Network((int(known) >> 64 << 64, 64)))
