"""What one user may take: calls in a minute, stored bytes, sessions. Off unless they are set.

The processes on one data folder count calls together. Sessions and bytes are looked up before a
call is done, so calls at the same time may go over by what they bring.
"""

import time
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any
from uuid import UUID

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.server.accounts.callers import Caller
from contextrender_bridge.server.accounts.counting import Counts

from graph.sessions.owned import count_sessions, has_session, stored_bytes
from graph.store.base import Store

FULL_SECONDS = 60
"""When to try again where something must be deleted first."""
MEASURED_SECONDS = 10.0
"""How long a measure of stored bytes counts; what came since is added as it was sent."""


class Quotas:
    """The limits of one server's users."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        counts: Counts,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Limits as the settings have them."""
        self._settings = settings
        self._store = store
        self._clock = clock
        self._counts = counts
        self._bytes: dict[str, tuple[float, int]] = {}

    @classmethod
    def of(cls, settings: Settings, store: Store, counts: Counts) -> "Quotas | None":
        """None where nothing is limited."""
        limits = (settings.user_calls, settings.user_mb, settings.user_sessions)
        return None if limits == (None, None, None) else cls(settings, store, counts)

    def check_call(self, caller: Caller) -> None:
        """Counts a call. Raises InvalidRequest (429) above the limit.

        A full bucket holds a minute's calls and is filled again as time goes on.
        """
        if (most := self._settings.user_calls) is None:
            return
        now = self._clock()
        with self._counts.changing() as file:
            query = "SELECT left, since FROM calls WHERE user = ?"
            left, since = file.execute(query, (caller.user,)).fetchone() or (most, now)
            left = min(float(most), left + max(now - since, 0) * most / 60)
            row = (caller.user, left - 1 if left >= 1 else left, now)
            file.execute("INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", row)
        if left < 1:
            wait = ceil((1 - left) * 60 / most)
            raise _refusal("too_many_calls", f"A minute has up to {most} calls.", wait)

    def check_write(self, caller: Caller, fields: Mapping[str, Any], size: int) -> None:
        """Before a call that brings messages. Raises InvalidRequest (429) where there is no room.

        `size` is that of the request's body in bytes.
        """
        data = fields.get("data")
        if "messages" not in fields and data is None:
            return
        if (most := self._settings.user_mb) is not None:
            self._check_bytes(caller, most, size)
        if (most := self._settings.user_sessions) is not None:
            owner = UUID(caller.root)
            key = fields.get("session") or (data.get("session") if isinstance(data, dict) else "")
            if count_sessions(self._store, owner) >= most and not (
                isinstance(key, str) and has_session(self._store, owner, key)
            ):
                sentence = f"You may have up to {most} sessions: delete some."
                raise _refusal("too_many_sessions", sentence, FULL_SECONDS)

    def _check_bytes(self, caller: Caller, most: int, size: int) -> None:
        now, room = self._clock(), most * 2**20
        measured, known = self._bytes.get(caller.user, (float("-inf"), 0))
        if now - measured > MEASURED_SECONDS or known + size > room:
            measured, known = now, stored_bytes(self._store, UUID(caller.root))
        self._bytes[caller.user] = (measured, known + size)
        if known >= room:
            sentence = f"You may store up to {most} MB: delete some sessions."
            raise _refusal("too_much_stored", sentence, FULL_SECONDS)


def _refusal(code: str, sentence: str, wait: int) -> InvalidRequest:
    return InvalidRequest(sentence, code=code, status=429, retry_after=wait)
