"""Counts that all processes on one data folder share, and the limits of users.

They count failed logins, used codes, each user's calls per minute and the sessions that running
calls create, in a small SQLite file that is never synced: after a power cut they begin at zero.
Stored bytes are read before a call, so calls at the same time may exceed that limit by what they
bring.
"""

import ipaddress
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from contextrender_bridge.base.errors import InvalidRequest, ServerError
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.server.http.bodies import WalkerInput, encode
from contextrender_bridge.sessions.user_rows import count_sessions, has_session, stored_bytes
from contextrender_bridge.store.base import Store

if TYPE_CHECKING:
    from contextrender_bridge.server.accounts.callers import Caller

FILE = "counts.db"
MAX_FAILURES = 10
SECONDS = 300.0
FULL_SECONDS = 60
"""Seconds after which to try again if something must be deleted first."""
MEASURED_SECONDS = 10.0
"""How long a measure of stored bytes counts; what came since is added as it was sent."""
CREATION_SECONDS = 600.0
"""Seconds for which a session that a killed process was creating is counted."""
REMEMBERED = 10_000
"""Failures kept; the oldest are forgotten first."""
PATIENCE_SECONDS = 5.0
TABLES = """
CREATE TABLE IF NOT EXISTS calls (user TEXT PRIMARY KEY, left REAL, since REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failures (key TEXT, at REAL);
CREATE INDEX IF NOT EXISTS failures_of ON failures (key, at);
CREATE INDEX IF NOT EXISTS failures_at ON failures (at);
CREATE TABLE IF NOT EXISTS reservations
    (number INTEGER PRIMARY KEY AUTOINCREMENT, user TEXT, session TEXT, at REAL);
CREATE TABLE IF NOT EXISTS codes (id TEXT PRIMARY KEY, expires REAL) WITHOUT ROWID;
"""


class Counts:
    """The file, opened when something is counted first; safe between threads and processes."""

    def __init__(self, data: Path) -> None:
        self._path = data / FILE
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Lock the counts until the block ends. Raise ServerError if they cannot be written."""
        with self._lock:
            try:
                connection = self._connection = self._connection or self._open()
                with connection:
                    connection.execute("BEGIN IMMEDIATE")
                    yield connection
            except sqlite3.Error as failure:
                raise ServerError("Calls cannot be counted now; try again.") from failure

    def close(self) -> None:
        """Close the file."""
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
        self._counts = counts

    def begin(self, *keys: str) -> int:
        """Count an attempt as failed until it is forgiven; return 0, or the seconds to wait."""
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
        """Remove the newest failure of each key, because the attempt succeeded."""
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
        return 0.0 if count < MAX_FAILURES else oldest + SECONDS - now


def network_of(address: str) -> str:
    """Return the address; of IPv6 its network, whose 2^64 addresses belong to one caller."""
    try:
        parsed = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    return str(parsed.ipv4_mapped or ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))


class Quotas:
    """The limits of one server's users; `on` where there is one."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        counts: Counts,
        clock: Callable[[], float] = time.time,
    ) -> None:
        limits = (
            settings.user_max_calls_per_minute,
            settings.user_max_mb,
            settings.user_max_sessions,
        )
        self.on = any(limit is not None for limit in limits)
        self._settings = settings
        self._store = store
        self._clock = clock
        self._counts = counts
        self._bytes: dict[str, tuple[float, int]] = {}

    def check_call(self, caller: "Caller") -> None:
        """Count a call. Raise InvalidRequest (429) above the limit.

        A full bucket holds a minute's calls and is filled again as time goes on.
        """
        if (max_calls := self._settings.user_max_calls_per_minute) is None:
            return
        now = self._clock()
        with self._counts.changing() as file:
            query = "SELECT left, since FROM calls WHERE user = ?"
            calls_left, since = file.execute(query, (caller.user,)).fetchone() or (max_calls, now)
            calls_left = min(float(max_calls), calls_left + max(now - since, 0) * max_calls / 60)
            row = (caller.user, calls_left - 1 if calls_left >= 1 else calls_left, now)
            file.execute("INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", row)
        if calls_left < 1:
            wait = ceil((1 - calls_left) * 60 / max_calls)
            raise _refusal("too_many_calls", f"A minute has up to {max_calls} calls.", wait)

    @contextmanager
    def writing(
        self, caller: "Caller", fields: Mapping[str, Any], body: WalkerInput
    ) -> Iterator[None]:
        """Check the room for a call that brings messages, and hold it until the block ends.

        `body` is the request's. Raise InvalidRequest (429) if there is no room.
        """
        data = fields.get("data")
        if "messages" not in fields and data is None:
            yield
            return
        if (limit := self._settings.user_max_mb) is not None:
            size = len(body if isinstance(body, bytes) else encode(body))
            self._check_bytes(caller, limit, size)
        key = fields.get("session") or (data.get("session") if isinstance(data, dict) else "")
        owner = UUID(caller.root)
        limit = self._settings.user_max_sessions
        if limit is None or (isinstance(key, str) and has_session(self._store, owner, key)):
            yield
            return
        with self._reserved_session(owner, str(key), limit):
            yield

    @contextmanager
    def _reserved_session(self, owner: UUID, key: str, limit: int) -> Iterator[None]:
        """Count a session that a call will create, for the block.

        Raise InvalidRequest (429) if the user has `limit` sessions, with those that earlier calls
        are creating now. Only users who create sessions wait for the counts, and not for the store.
        """
        user, now = str(owner), self._clock()
        with self._counts.changing() as file:
            file.execute("DELETE FROM reservations WHERE at <= ?", (now - CREATION_SECONDS,))
            insert = "INSERT INTO reservations (user, session, at) VALUES (?, ?, ?)"
            number = file.execute(insert, (user, key, now)).lastrowid
            query = (
                "SELECT DISTINCT session FROM reservations "
                "WHERE user = ? AND session <> ? AND number < ?"
            )
            earlier = [session for (session,) in file.execute(query, (user, key, number))]
        try:
            # This comes before the count of stored sessions. So a session that is stored meanwhile
            # counts twice, not never.
            pending = [name for name in earlier if not has_session(self._store, owner, name)]
            sessions = count_sessions(self._store, owner) + len(pending)
            if sessions >= limit and not has_session(self._store, owner, key):
                sentence = f"You may have up to {limit} sessions: delete some."
                raise _refusal("too_many_sessions", sentence, FULL_SECONDS)
            yield
        finally:
            with self._counts.changing() as file:
                file.execute("DELETE FROM reservations WHERE number = ?", (number,))

    def _check_bytes(self, caller: "Caller", max_mb: int, size: int) -> None:
        now, room = self._clock(), max_mb * 2**20
        measured, size_then = self._bytes.get(caller.user, (float("-inf"), 0))
        if now - measured > MEASURED_SECONDS or size_then + size > room:
            measured, size_then = now, stored_bytes(self._store, UUID(caller.root))
        self._bytes[caller.user] = (measured, size_then + size)
        if size_then >= room:
            sentence = f"You may store up to {max_mb} MB: delete some sessions."
            raise _refusal("too_much_stored", sentence, FULL_SECONDS)


def _refusal(code: str, sentence: str, wait: int) -> InvalidRequest:
    return InvalidRequest(sentence, code=code, status=429, retry_after=wait)
