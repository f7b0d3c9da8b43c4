"""Deletes sessions beyond a user's limits of age, number and bytes.

Whole sessions go, the longest unused first. One that was written within the last hour is in use and
stays, whatever the limits; so does one that is written between the look and its delete.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from contextrender_bridge.base.errors import Conflict, ContextRenderError, NotFound
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.server.accounts.callers import Caller
from contextrender_bridge.server.accounts.users import Accounts
from contextrender_bridge.server.runtime import Runtime
from contextrender_bridge.server.watching.logs import log, log_failure
from contextrender_bridge.sessions.user_rows import (
    StoredSession,
    session_bytes,
    stored_bytes,
    stored_sessions,
    unfinished_removals,
)

LIVE_SECONDS: Final = 3600.0
DAY: Final = 86_400.0
SOONER: Final = 0.9
"""Of the interval: the process that had the last turn may be a little early."""


@dataclass(frozen=True)
class Due:
    """A session to delete; `reason` names the limit. `bytes` are those of its events."""

    user: Caller
    session: StoredSession
    reason: str
    bytes: int


class Retention:
    """The limits of one store."""

    def __init__(self, runtime: Runtime, accounts: Accounts, settings: Settings) -> None:
        self._runtime, self._accounts, self._settings = runtime, accounts, settings
        self.on_collected: Callable[[str], None] = lambda why: None

    def due(self) -> Iterator[Due]:
        """Return the sessions beyond the limits, of every user."""
        now = time.time()
        for user in self._accounts.all():
            yield from list(self._due_of(user, now))

    def collect(self) -> list[Due]:
        """Delete the sessions beyond the limits and what earlier deletions left; return them.

        Each has a line in the audit log. Raise StoreUnavailable.
        """
        for user in self._accounts.all():
            for key in unfinished_removals(self._runtime.store, UUID(user.root)):
                self._delete(user, key, None)
        deleted = [session for session in self.due() if self._collect(session)]
        if deleted:
            log.warning(
                "retention: %d sessions deleted, %d bytes",
                len(deleted),
                sum(g.bytes for g in deleted),
            )
        return deleted

    def collect_in_turn(self) -> list[Due]:
        """Collect, unless another process of this store does, or did in this interval.

        Other limits do not wait for the next interval. Raise StoreUnavailable.
        """
        limits = self._settings
        work = (
            f"collected/{limits.retention_days}/{limits.retention_sessions}/{limits.retention_mb}"
        )
        if not self._runtime.store.claim(work, limits.gc_minutes * 60 * SOONER):
            return []
        return self.collect()

    def _due_of(self, user: Caller, now: float) -> Iterator[Due]:
        settings, store, owner = self._settings, self._runtime.store, UUID(user.root)
        if (settings.retention_days, settings.retention_sessions, settings.retention_mb) == (
            None,
            None,
            None,
        ):
            return
        sessions = stored_sessions(store, owner)
        room = None if settings.retention_mb is None else settings.retention_mb * 2**20
        stored_size = 0 if room is None else stored_bytes(store, owner)
        oldest = 0.0 if settings.retention_days is None else now - settings.retention_days * DAY
        max_sessions = (
            len(sessions) if settings.retention_sessions is None else settings.retention_sessions
        )
        count = len(sessions)
        for session in sessions:
            reason = (
                ("age" if session.updated_at < oldest else "")
                or ("sessions" if count > max_sessions else "")
                or ("bytes" if room is not None and stored_size > room else "")
            )
            if not reason:
                return
            if session.updated_at > now - LIVE_SECONDS:
                log.warning(
                    "retention: a user is above the limit by %s with sessions in use", reason
                )
                return
            size = session_bytes(store, owner, session)
            count, stored_size = count - 1, stored_size - size
            yield Due(user, session, reason, size)

    def _collect(self, due: Due) -> bool:
        if not self._delete(due.user, due.session.key, due.session.updated_at):
            return False
        self.on_collected(due.reason)
        self._accounts.audit.note(
            "session_deleted_by_retention",
            due.user.name,
            session=due.session.key,
            reason=due.reason,
        )
        return True

    def _delete(self, user: Caller, key: str, updated_at: float | None) -> bool:
        """Delete a session; return False if it was written meanwhile, or is gone already."""
        fields = {"session": key, "updated_at": updated_at}
        try:
            self._runtime.call("delete_session", lambda: dict(fields), user.root)
        except (Conflict, NotFound):
            return False
        except ContextRenderError as failure:
            log_failure("retention", failure)
            return False
        return True
