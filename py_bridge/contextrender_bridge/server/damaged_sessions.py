"""The handling of requests for a damaged session. Nothing is repaired.

If the request has the full history, it is answered: the damaged session is moved to another name,
and the history is recorded again. Every other request gets the error Damaged.
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
    """Return the first finding in a session; None if its rows are intact or it does not exist.

    That a session was set aside does not count as damage here.
    """
    findings = check_session(store, owner, session_id_of(owner, key), read_problem)
    return next((finding for finding in findings if finding.kind != "set aside"), None)


def set_damaged_aside(store: Store, owner: UUID, key: str) -> None:
    """Move a session to another name if it is damaged, and log one warning.

    Do nothing if it is intact, or if another request moves or writes it at the same time.
    """
    # Read the revision before the check, so that a later write is noticed.
    revision = store.revision_of(owner, session_id_of(owner, key))
    finding = first_damage(store, owner, key)
    if finding is None:
        return
    with suppress(WriteConflict):
        set_aside(store, owner, key, f"{finding.kind} {finding.message}", revision)
        log.warning(
            "a session of user %s is damaged: it was set aside under another name, and its "
            "history is recorded anew (see `contextrender check`)",
            owner,
        )
