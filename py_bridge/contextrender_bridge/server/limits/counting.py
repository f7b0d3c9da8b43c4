"""Counts that all processes of a data folder share, and the limits of users.

Long because the limits read the counts.

The counts are failed logins, used codes, each user's calls per minute, and the sessions that
running calls create. Their small SQLite file is never synced, so they may be zero after a power
cut. Stored bytes are measured before a call, so simultaneous calls may exceed that limit.
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
FAILURE_SECONDS = 300.0
"""The time in which a name or a network may fail MAX_FAILURES logins."""
MAX_STORED_FAILURES = 10_000
RETRY_SECONDS = 60
"""The `retry-after` of a refusal if the user must first delete something."""
MEASURE_SECONDS = 10.0
"""The seconds for which a measure of stored bytes is used. Bytes of later requests are added."""
CREATION_SECONDS = 600.0
"""The maximum time in seconds that a session in creation counts: its process may be killed."""
LOCK_TIMEOUT_SECONDS = 5.0
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
    """The file of counts, opened at its first use. Threads and processes can share it."""

    def __init__(self, data: Path) -> None:
        self._path = data / FILE
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection to the file, in a write transaction for the block.

        The block must not wait for anything else, because it holds a lock. Raise ServerError if
        SQLite fails.
        """
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
        """Return a connection to the file. Create the file and its tables if they are missing."""
        connection = sqlite3.connect(
            self._path, timeout=LOCK_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode=WAL")
        # Do not sync, which would be slow. After a power cut, counts may begin at zero again.
        connection.execute("PRAGMA synchronous=OFF")
        connection.executescript(TABLES)
        return connection


class LoginAttempts:
    """The failed logins of the last FAILURE_SECONDS. Keys are users' names and networks."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def begin(self, *keys: str) -> int:
        """Count a login attempt for each key as failed, and return 0. `forgive` undoes it.

        If one of the keys has failed too often, count nothing and return the seconds to wait.
        """
        now = time.time()
        with self._counts.transaction() as file:
            file.execute("DELETE FROM failures WHERE at <= ?", (now - FAILURE_SECONDS,))
            if seconds := max(self._seconds_to_wait(file, key, now) for key in keys):
                return ceil(seconds)
            # Add the failures, and keep only the newest MAX_STORED_FAILURES of all keys.
            rows = [(key, now) for key in keys]
            file.executemany("INSERT INTO failures (key, at) VALUES (?, ?)", rows)
            file.execute(
                "DELETE FROM failures WHERE rowid IN "
                "(SELECT rowid FROM failures ORDER BY at DESC LIMIT -1 OFFSET ?)",
                (MAX_STORED_FAILURES,),
            )
        return 0

    def forgive(self, *keys: str) -> None:
        """Remove one failure of each key, which `begin` counted, because the login succeeded."""
        with self._counts.transaction() as file:
            for key in keys:
                file.execute(
                    "DELETE FROM failures WHERE rowid = "
                    "(SELECT rowid FROM failures WHERE key = ? ORDER BY at DESC LIMIT 1)",
                    (key,),
                )

    def _seconds_to_wait(self, file: sqlite3.Connection, key: str, now: float) -> float:
        """Return the seconds until a key may be tried again; 0 if it has not failed too often."""
        query = "SELECT COUNT(*), MIN(at) FROM failures WHERE key = ?"
        count, oldest = file.execute(query, (key,)).fetchone()
        return 0.0 if count < MAX_FAILURES else oldest + FAILURE_SECONDS - now


def network_of(address: str) -> str:
    """Return the network by which failed logins are counted.

    It is the address itself for IPv4, and the /64 network for IPv6, because one client may own all
    addresses of such a network. A text that is no IPv6 address is returned unchanged.
    """
    try:
        parsed = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    return str(parsed.ipv4_mapped or ipaddress.IPv6Network((parsed, 64), strict=False))


class Quotas:
    """The limits of each user: calls per minute, stored bytes and sessions."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        counts: Counts,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Use the limits in the settings. `clock` returns the time in seconds."""
        limits = (
            settings.user_max_calls_per_minute,
            settings.user_max_mb,
            settings.user_max_sessions,
        )
        self.has_limits = any(limit is not None for limit in limits)
        self._settings, self._store = settings, store
        self._clock = clock
        self._counts = counts
        self._measures: dict[str, tuple[float, int]] = {}
        """For each user, the time of the last measure and the estimate of the stored bytes."""

    def check_call(self, caller: "Caller") -> None:
        """Count a call of a user. Raise InvalidRequest (429) if the user has no call left.

        A user has at most as many calls left as the limit per minute. Each call takes one, and each
        minute adds the limit again, evenly over time.
        """
        if (max_calls := self._settings.user_max_calls_per_minute) is None:
            return
        now = self._clock()
        with self._counts.transaction() as file:
            query = "SELECT left, since FROM calls WHERE user = ?"
            stored_row = file.execute(query, (caller.user,)).fetchone()
            calls_before, time_before = stored_row or (max_calls, now)
            elapsed = max(now - time_before, 0)  # The clock may have been set back.
            calls_left = min(float(max_calls), calls_before + elapsed * max_calls / 60)
            is_allowed = calls_left >= 1
            calls_after = calls_left - 1 if is_allowed else calls_left
            row = (caller.user, calls_after, now)
            file.execute("INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", row)
        if not is_allowed:
            seconds = ceil((1 - calls_left) * 60 / max_calls)
            raise _refusal("too_many_calls", f"A minute has up to {max_calls} calls.", seconds)

    @contextmanager
    def reserve(
        self, caller: "Caller", fields: Mapping[str, Any], body: WalkerInput
    ) -> Iterator[None]:
        """Check the user's limits of bytes and sessions before a call, which runs in the block.

        Only calls that bring messages or an exported session are limited. Raise InvalidRequest
        (429) above a limit. If the call will create a session, reserve a place for the session
        during the block, so that simultaneous calls cannot exceed the limit together.
        """
        data = fields.get("data")  # an exported session
        if "messages" not in fields and data is None:
            yield
            return
        if (max_mb := self._settings.user_max_mb) is not None:
            size = len(body if isinstance(body, bytes) else encode(body))
            self._check_bytes(caller, max_mb, size)
        # The name of the session is in the request or, if that has none, in the exported session.
        exported_key = data.get("session") if isinstance(data, dict) else ""
        key = fields.get("session") or exported_key
        owner = UUID(caller.root)
        max_sessions = self._settings.user_max_sessions
        if max_sessions is None or (isinstance(key, str) and has_session(self._store, owner, key)):
            yield
            return
        with self._reserve_session(owner, str(key), max_sessions):
            yield

    @contextmanager
    def _reserve_session(self, owner: UUID, key: str, limit: int) -> Iterator[None]:
        """Reserve a place for a new session during the block.

        Raise InvalidRequest (429) if no place is free: the user's stored sessions, and the sessions
        that earlier calls are creating now, are already `limit`.
        """
        number, earlier_keys = self._add_reservation(str(owner), key)
        try:
            # Find the sessions that are not stored yet before counting the stored ones. A session
            # that is stored in between is then counted twice, and never missed.
            store = self._store
            pending = [other for other in earlier_keys if not has_session(store, owner, other)]
            session_count = count_sessions(store, owner) + len(pending)
            # If another call has just created this session, it is one of the counted ones.
            if session_count >= limit and not has_session(store, owner, key):
                sentence = f"You may have up to {limit} sessions: delete some."
                raise _refusal("too_many_sessions", sentence, RETRY_SECONDS)
            yield
        finally:
            with self._counts.transaction() as file:
                file.execute("DELETE FROM reservations WHERE number = ?", (number,))

    def _add_reservation(self, user: str, key: str) -> tuple[int | None, list[str]]:
        """Add a reservation, and return its number and the other sessions reserved before it.

        First remove old reservations, whose processes were probably killed.
        """
        now = self._clock()
        with self._counts.transaction() as file:
            file.execute("DELETE FROM reservations WHERE at <= ?", (now - CREATION_SECONDS,))
            insert = "INSERT INTO reservations (user, session, at) VALUES (?, ?, ?)"
            number = file.execute(insert, (user, key, now)).lastrowid
            query = (
                "SELECT DISTINCT session FROM reservations "
                "WHERE user = ? AND session <> ? AND number < ?"
            )
            rows = file.execute(query, (user, key, number)).fetchall()
        return number, [session for (session,) in rows]

    def _check_bytes(self, caller: "Caller", max_mb: int, request_bytes: int) -> None:
        """Raise InvalidRequest (429) if the user has already stored `max_mb` or more.

        Between two measures, the stored bytes are estimated: each request adds its own bytes.
        """
        now, max_bytes = self._clock(), max_mb * 2**20
        measured_at, size = self._measures.get(caller.user, (float("-inf"), 0))
        # The sum is an estimate, so measure the stored bytes before refusing a call.
        if now - measured_at > MEASURE_SECONDS or size + request_bytes > max_bytes:
            measured_at, size = now, stored_bytes(self._store, UUID(caller.root))
        self._measures[caller.user] = (measured_at, size + request_bytes)
        if size >= max_bytes:
            sentence = f"You may store up to {max_mb} MB: delete some sessions."
            raise _refusal("too_much_stored", sentence, RETRY_SECONDS)


def _refusal(code: str, sentence: str, seconds: int) -> InvalidRequest:
    """Return the error 429, which asks the client to wait for `seconds`."""
    return InvalidRequest(sentence, code=code, status=429, retry_after=seconds)
