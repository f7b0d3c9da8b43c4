"""The handling of requests for a damaged session. Nothing is repaired.

A request with a full history is answered: the session is set aside under another name, and the
history is recorded again. Every other request gets the error Damaged.
"""

import logging
from contextlib import suppress
from uuid import UUID

from contextrender_bridge.runtime.archetypes import read_problem
from contextrender_bridge.sessions.check import check_session
from contextrender_bridge.sessions.findings import StoreFinding
from contextrender_bridge.sessions.ids import session_id_of
from contextrender_bridge.sessions.set_aside import set_aside
from contextrender_bridge.store.base import Store
from contextrender_bridge.store.writes import WriteConflict

log = logging.getLogger("contextrender")


def first_damage(store: Store, owner: UUID, key: str) -> StoreFinding | None:
    """Return the first finding about a session, None if its rows are intact or absent."""
    findings = check_session(store, owner, session_id_of(owner, key), read_problem)
    return next((finding for finding in findings if finding.kind != "set aside"), None)


def set_damaged_aside(store: Store, owner: UUID, key: str, finding: StoreFinding) -> None:
    """Set a damaged session aside and log one warning. If another process does so, do nothing."""
    with suppress(WriteConflict):
        set_aside(store, owner, key, f"{finding.kind} {finding.message}")
        log.warning(
            "a session of user %s is damaged: it was set aside under another name, and its "
            "history is recorded anew (see `contextrender check`)",
            owner,
        )
