"""Removing a user: locked out first, then the sessions, then the account; it can be run again."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from contextrender_bridge.base.errors import CommandError, Conflict, ContextRenderError
from contextrender_bridge.server.accounts.users import LOCAL_USER, Accounts, Caller
from contextrender_bridge.server.runtime import Runtime

from graph.sessions.owned import remove_owner


def remove_user(runtime: Runtime, accounts: Accounts, name: str, heir: str | None) -> int:
    """Removes the account; its sessions go to `heir`, or are deleted. How many there were.

    Raises CommandError; the user is locked out then, and what was not handed over is still there.
    """
    user = accounts.named(name)
    if user.name == LOCAL_USER:
        raise CommandError("the local user cannot be removed.")
    to = accounts.named(heir) if heir else None
    if to is not None and (to.user == user.user or not to.active):
        raise CommandError(f"'{heir}' cannot take the sessions.")
    accounts.lock_out(user)
    keys = list(_sessions(runtime, user))
    for key in keys:
        if to is not None:
            _hand_over(runtime, user, to, key)
            accounts.audit.note("session_handed_over", user.name, session=key, to=to.name)
    remove_owner(runtime.store, UUID(user.root))
    if to is None:
        for key in keys:
            accounts.audit.note("session_deleted", user.name, session=key)
    accounts.forget(user)
    return len(keys)


def _hand_over(runtime: Runtime, user: Caller, to: Caller, key: str) -> None:
    """As an export and an import; a name that the heir has already gets the old owner's behind."""
    try:
        data = _ask(runtime, user, "export_session", session=key)
        try:
            _ask(runtime, to, "import_session", data=data)
        except Conflict:
            _ask(runtime, to, "import_session", data=data, session=f"{key} ({user.name})")
        _ask(runtime, user, "delete_session", session=key)
    except ContextRenderError as failure:
        raise CommandError(
            f"session {key!r} cannot be handed over: {failure.message.rstrip('.')}. "
            f"'{user.name}' is locked out, and what was not handed over is still there."
        ) from None


def _sessions(runtime: Runtime, user: Caller) -> Iterator[str]:
    cursor = ""
    while True:
        page = _ask(runtime, user, "list_sessions", limit=200, cursor=cursor)
        yield from (one["session"] for one in page["sessions"])
        if not (cursor := page["next"] or ""):
            return


def _ask(runtime: Runtime, user: Caller, walker: str, **fields: Any) -> Any:
    return json.loads(runtime.call(walker, lambda: dict(fields), user.root))["reports"][0]
