"""Retention: the deletion of sessions beyond a user's limits of age, number and bytes.

Whole sessions are deleted, least recently written first. A session that was written within the last
hour is in use and is not deleted. Nor is a session that is written between its selection and its
deletion.
"""

import math
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

IN_USE_SECONDS: Final = 3600.0
DAY: Final = 86_400.0
TURN_SHARE: Final = 0.9
"""The duration of a claim of the work, as a share of the interval. It is below 1, because a process
may run slightly before the end of its interval."""


@dataclass(frozen=True)
class DueSession:
    """A session to delete. `reason` is the limit: `age`, `sessions` or `bytes`.

    `bytes` is the size of its rows and of the edges from them.
    """

    user: Caller
    session: StoredSession
    reason: str
    bytes: int


class Retention:
    """The retention of one store. `on_deleted` is called with the reason of each deletion."""

    def __init__(self, runtime: Runtime, accounts: Accounts, settings: Settings) -> None:
        self._runtime, self._accounts, self._settings = runtime, accounts, settings
        self.on_deleted: Callable[[str], None] = lambda reason: None

    def due_sessions(self) -> Iterator[DueSession]:
        """Yield the sessions of every user that are beyond the limits."""
        now = time.time()
        for user in self._accounts.all():
            # Find all of a user's sessions before the caller deletes one.
            yield from list(self._due_of(user, now))

    def delete_due(self) -> list[DueSession]:
        """Finish earlier deletions, then delete the sessions beyond the limits and return them.

        Record each deleted session in the audit log. Raise StoreUnavailable if the database cannot
        be read.
        """
        for user in self._accounts.all():
            for key in unfinished_removals(self._runtime.store, UUID(user.root)):
                self._delete(user, key, None)
        deleted = [due for due in self.due_sessions() if self._delete_due_session(due)]
        if deleted:
            total = sum(due.bytes for due in deleted)
            log.warning("retention: %d sessions deleted, %d bytes", len(deleted), total)
        return deleted

    def delete_in_turn(self) -> list[DueSession]:
        """Run `delete_due` and return its result, if this process can claim the work.

        Return an empty list if another process has claimed it for the current interval. A claim
        lasts for `TURN_SHARE` of the interval, and holds only for the same limits. Raise
        StoreUnavailable if the database fails.
        """
        limits = self._settings
        work = (
            f"collected/{limits.retention_days}/{limits.retention_sessions}/{limits.retention_mb}"
        )
        if not self._runtime.store.claim(work, limits.gc_minutes * 60 * TURN_SHARE):
            return []
        return self.delete_due()

    def _due_of(self, user: Caller, now: float) -> Iterator[DueSession]:
        """Yield a user's sessions beyond the limits, least recently written first.

        Stop at the first session within all limits, because later ones are newer. Also stop, with a
        warning, at a session in use. The caller is expected to delete each session.
        """
        settings, store, owner = self._settings, self._runtime.store, UUID(user.root)
        max_days = _or_infinite(settings.retention_days)
        max_count = _or_infinite(settings.retention_sessions)
        max_bytes = _or_infinite(settings.retention_mb) * 2**20
        if max_days == max_count == max_bytes == math.inf:
            return
        # The number and the bytes of the sessions that remain, without those yielded so far.
        sessions = stored_sessions(store, owner)
        count = len(sessions)
        size = 0 if max_bytes == math.inf else stored_bytes(store, owner)
        for session in sessions:
            # Find the limit that the session exceeds.
            if session.updated_at < now - max_days * DAY:
                reason = "age"
            elif count > max_count:
                reason = "sessions"
            elif size > max_bytes:
                reason = "bytes"
            else:
                return
            if session.updated_at > now - IN_USE_SECONDS:
                log.warning(
                    "retention: a user is above the limit by %s with sessions in use", reason
                )
                return
            due = DueSession(user, session, reason, session_bytes(store, owner, session))
            count, size = count - 1, size - due.bytes
            yield due

    def _delete_due_session(self, due: DueSession) -> bool:
        """Delete a session, count the deletion, and record it in the audit log.

        Return whether the session was deleted.
        """
        if not self._delete(due.user, due.session.key, due.session.updated_at):
            return False
        self.on_deleted(due.reason)
        self._accounts.audit.record(
            "session_deleted_by_retention",
            due.user.name,
            session=due.session.key,
            reason=due.reason,
        )
        return True

    def _delete(self, user: Caller, key: str, updated_at: float | None) -> bool:
        """Delete a session, and return whether it was deleted.

        It is not deleted if its last write was not at `updated_at`, if it does not exist, or if
        there is a failure, which is logged. `updated_at` is None to finish an earlier deletion.
        """
        fields = {"session": key, "updated_at": updated_at}
        try:
            self._runtime.call("delete_session", fields, user.root)
        except (Conflict, NotFound):
            return False
        except ContextRenderError as failure:
            log_failure("retention", failure)
            return False
        return True


def _or_infinite(limit: float | None) -> float:
    """Return the limit, or infinity if none is set."""
    return math.inf if limit is None else limit
