"""The settings of one request to the proxy, and the session that it belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from contextrender_bridge.asgi import Headers
from contextrender_bridge.base import wire
from contextrender_bridge.base.setting_kinds import (
    MODES,
    POLICIES,
    InvalidSetting,
    as_patterns,
    budget_of,
)
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client.session_names import name_of
from contextrender_bridge.proxy.own_calls import is_compaction

_SESSION_HEADERS = (
    "x-contextrender-session",
    "x-session-id",
    "x-claude-code-session-id",
    "session-id",
    "session_id",
)
_CALLER_HEADERS = ("authorization", "x-api-key", "api-key")
MAX_NAME_CHARS = 200


class InvalidControl(ValueError):
    """Raised when a control header is invalid; `args` has its name without the prefix."""


@dataclass(frozen=True)
class Controls:
    """The settings of one request.

    - `mode`: `render`, `observe` or `bypass`.
    - `budget`, `policy`: None for the session's own.
    - `token`: the caller's own token for the service, or None. Without a token, a trusted caller
      uses the proxy's.
    - `is_compaction_call`: the request is an agent's own compaction, which needs the full history.
    - `bypass_tools`: names and globs of tools whose results are never shortened.
    - `pinned_tools`, `pinned_calls`: tools, and ids of calls, whose results are pinned.
    - `holdout`: the share of sessions that are sent in full, for comparison.
    - `delivery`: the delivery to record with the call.
    - `full_reason`: why the full history is sent although the mode was `render`; empty otherwise.
    """

    mode: str
    budget: int | str | None
    policy: str | None
    token: str | None = field(repr=False)
    is_trusted: bool = False
    is_compaction_call: bool = False
    bypass_tools: frozenset[str] = frozenset()
    pinned_tools: frozenset[str] = frozenset()
    pinned_calls: frozenset[str] = frozenset()
    holdout: float = 0.0
    delivery: str = "rendered"
    full_reason: str = ""

    @property
    def has_user(self) -> bool:
        """True if the request has its own token or may use the proxy's."""
        return self.is_trusted or self.token is not None

    @classmethod
    def of(cls, headers: Headers, settings: Settings, *, is_trusted: bool = False) -> Controls:
        """Return the settings in the headers. For a missing header, use the proxy's setting.

        Raise InvalidControl if a header has an invalid value.
        """
        values = _first_by_name(headers)
        # These values are checked here, the others by the functions that parse them.
        mode = values.get("x-contextrender-mode") or settings.mode
        if mode not in MODES:
            raise InvalidControl("mode")
        budget = values.get("x-contextrender-budget")
        policy = values.get("x-contextrender-policy") or settings.policy
        if policy and policy not in POLICIES:
            raise InvalidControl("policy")
        return cls(
            mode=mode,
            budget=_budget(budget) if budget else settings.budget,
            policy=policy,
            is_compaction_call=_is_on(values, "compaction"),
            token=values.get("x-contextrender-token") or None,
            is_trusted=is_trusted,
            bypass_tools=_names(values, "bypass-tools", settings.bypass_tools),
            pinned_tools=_names(values, "pin-tools", settings.pin_tools),
            pinned_calls=_names(values, "pin-calls", frozenset()),
            holdout=settings.holdout,
            # In the other modes, the full history is sent.
            delivery="rendered" if mode == "render" else "full",
        )

    def for_request(self, session: str, body: Mapping[str, Any]) -> Controls:
        """Return these settings, adapted to the request's session and body.

        For a holdout session and a compaction call, change the mode `render` to `observe`, so that
        the full history is recorded and sent.
        """
        if self.mode != "render":
            # The proxy may cut the request of a compaction call to the model's window. But these
            # modes must never change a request, so do not mark it as such a call.
            return replace(self, is_compaction_call=False)
        is_compaction_call = self.is_compaction_call or is_compaction(body)
        if is_held_out(session, self.holdout):
            delivery, reason = "holdout", "holdout"
        elif is_compaction_call:
            delivery, reason = "full", "compaction"
        else:
            return self
        return replace(
            self,
            mode="observe",
            is_compaction_call=is_compaction_call,
            delivery=delivery,
            full_reason=reason,
        )


def _budget(text: str) -> int | str:
    """Return the budget in a header's value. Raise InvalidControl if it is invalid."""
    budget = budget_of(text)
    if budget is None:
        raise InvalidControl("budget")
    return budget


def _first_by_name(headers: Headers) -> dict[str, str]:
    """Return the first value of each header, by name."""
    # The dictionary keeps the last value of each name, so the headers are reversed.
    return {name.decode("latin-1"): text.decode("latin-1") for name, text in reversed(headers)}


def _is_on(values: Mapping[str, str], name: str) -> bool:
    return values.get(f"x-contextrender-{name}", "").lower() in ("1", "true", "yes", "on")


def _names(values: Mapping[str, str], name: str, default: frozenset[str]) -> frozenset[str]:
    """Return the names in the header `x-contextrender-{name}`, or `default` if it is missing.

    `values` are all headers. Raise InvalidControl if the header has an invalid value.
    """
    text = values.get(f"x-contextrender-{name}")
    try:
        return as_patterns(text) if text else default
    except InvalidSetting:
        raise InvalidControl(name) from None


def is_held_out(session: str, share: float) -> bool:
    """Return whether a session belongs to the holdout, which has this `share` of all sessions.

    A hash of the session's name decides, so the decision is the same for all calls of a session.
    """
    digest = hashlib.sha256(f"holdout {session}".encode("utf-8", "replace")).digest()
    # As a number, the hash's first 8 bytes are evenly distributed below 2**64.
    return int.from_bytes(digest[:8], "big") < share * 2**64


def generated_name(headers: Headers, messages: Sequence[Mapping[str, Any]]) -> str:
    """Return a session name that is made from the first messages and the caller's provider key.

    So two callers whose histories begin alike have two sessions. The request field
    `prompt_cache_key` is not used as a name, because many people can share one value.
    """
    values = _first_by_name(headers)
    caller = next((value for name in _CALLER_HEADERS if (value := values.get(name))), "")
    return name_of(messages, caller)


def given_name(path: str, headers: Headers) -> str:
    """Return the session's name in the path or a header; empty if there is none."""
    values = _first_by_name(headers)
    for name in (path, *(values.get(name, "") for name in _SESSION_HEADERS)):
        if name.strip():
            return _bounded(name.strip())
    return ""


def history_key_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return a key that distinguishes the histories of one session, such as those of subagents.

    It is a hash of the messages before the first answer, without system prompts.
    """
    beginning = takewhile(lambda message: message["role"] != "assistant", messages)
    return wire.digest_of(*[m for m in beginning if m["role"] not in ("system", "developer")])


def has_session_header(headers: Headers) -> bool:
    """Return whether a header other than ContextRender's own names the session."""
    values = _first_by_name(headers)
    return any(values.get(name) for name in _SESSION_HEADERS[1:])


def _bounded(name: str) -> str:
    """Return `name` made printable and cut to `MAX_NAME_CHARS`; a cut name ends with its hash."""
    name = "".join(letter if letter.isprintable() else "_" for letter in name)
    if len(name) <= MAX_NAME_CHARS:
        return name
    suffix = f"-{wire.digest_of(name)}"
    return name[: MAX_NAME_CHARS - len(suffix)] + suffix
