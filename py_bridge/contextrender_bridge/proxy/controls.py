"""What a request asks of the proxy, by header or by what it is, and whose session it belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from contextrender_bridge.asgi import Headers
from contextrender_bridge.base import wire
from contextrender_bridge.base.setting_kinds import MODES, POLICIES, Unfit, as_patterns, budget_of
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client.fitting import name_of
from contextrender_bridge.proxy.own_calls import is_compaction

_SESSION_HEADERS = (
    "x-contextrender-session",
    "x-session-id",
    "x-claude-code-session-id",
    "session-id",
    "session_id",
)
_CALLER_HEADERS = ("authorization", "x-api-key", "api-key")
LONGEST_NAME = 200


class InvalidControl(ValueError):
    """A control header has a value that it cannot have; `args` is the header's name."""


@dataclass(frozen=True)
class Controls:
    """One request's settings. `token` is the caller's own for the service, if one came.

    `trusted` callers are served with the proxy's token where they bring none. `whole`: the request
    is an agent's own compaction, which needs all of the history. `bypass_tools` are names and globs
    of tools whose results are never touched; those of the tools `pinned_tools` and of the calls
    with the ids `pinned_calls` are shown while they fit. `holdout` is the share of sessions that
    are sent in full.
    `delivery` is what goes to the model, as the service notes it of the call; `whole_for` is why it
    goes whole though the proxy renders.
    """

    mode: str
    budget: int | str | None
    policy: str | None
    token: str | None = field(repr=False)
    trusted: bool = False
    whole: bool = False
    bypass_tools: frozenset[str] = frozenset()
    pinned_tools: frozenset[str] = frozenset()
    pinned_calls: frozenset[str] = frozenset()
    holdout: float = 0.0
    delivery: str = "rendered"
    whole_for: str = ""

    @property
    def identified(self) -> bool:
        """Whether it is known in whose sessions to look."""
        return self.trusted or self.token is not None

    @classmethod
    def of(cls, headers: Headers, settings: Settings, *, trusted: bool = False) -> Controls:
        """From the headers, else the proxy's own. Raises InvalidControl."""
        given = _by_name(headers)
        mode = given.get("x-contextrender-mode") or settings.mode
        if mode not in MODES:
            raise InvalidControl("mode")
        budget = given.get("x-contextrender-budget")
        policy = given.get("x-contextrender-policy") or settings.policy
        if policy and policy not in POLICIES:
            raise InvalidControl("policy")
        return cls(
            mode=mode,
            budget=_budget(budget) if budget else settings.budget,
            policy=policy,
            whole=_switch(given, "compaction"),
            token=given.get("x-contextrender-token") or None,
            trusted=trusted,
            bypass_tools=_names(given, "bypass-tools", settings.bypass_tools),
            pinned_tools=_names(given, "pin-tools", settings.pin_tools),
            pinned_calls=_names(given, "pin-calls", frozenset()),
            holdout=settings.holdout,
            delivery="rendered" if mode == "render" else "full",
        )

    def for_request(self, session: str, dialect: str, body: Mapping[str, Any]) -> Controls:
        """These, or where the session is held out, or the agent compacts, those for a request that
        goes through whole, and is recorded.
        """
        if self.mode != "render":
            return replace(self, whole=False)
        whole = self.whole or is_compaction(dialect, body)
        if is_held_out(session, self.holdout):
            delivery, reason = "holdout", "holdout"
        elif whole:
            delivery, reason = "full", "compaction"
        else:
            return self
        return replace(self, mode="observe", whole=whole, delivery=delivery, whole_for=reason)


def _budget(text: str) -> int | str:
    budget = budget_of(text)
    if budget is None:
        raise InvalidControl("budget")
    return budget


def _by_name(headers: Headers) -> dict[str, str]:
    """The first of each name."""
    return {name.decode("latin-1"): text.decode("latin-1") for name, text in reversed(headers)}


def _switch(given: Mapping[str, str], name: str) -> bool:
    return given.get(f"x-contextrender-{name}", "").lower() in ("1", "true", "yes", "on")


def _names(given: Mapping[str, str], name: str, default: frozenset[str]) -> frozenset[str]:
    text = given.get(f"x-contextrender-{name}")
    try:
        return as_patterns(text) if text else default
    except Unfit:
        raise InvalidControl(name) from None


def is_held_out(session: str, share: float) -> bool:
    """Whether a session is of the share that goes whole: the same one always is."""
    digest = hashlib.sha256(f"holdout {session}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def session_of(path: str, headers: Headers, messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the session's name, by path or header; else one made from how the history begins.

    A name made so also depends on the caller's key for the provider: two callers that begin alike
    have two sessions. `prompt_cache_key` names none: it routes requests, and many people share it.
    """
    if name := given_name(path, headers):
        return name
    given = _by_name(headers)
    caller = next((value for name in _CALLER_HEADERS if (value := given.get(name))), "")
    return name_of(messages, caller)


def given_name(path: str, headers: Headers) -> str:
    """Return the name that a caller gives the session; empty if it gives none."""
    given = _by_name(headers)
    for name in (path, *(given.get(name, "") for name in _SESSION_HEADERS)):
        if name.strip():
            return _bounded(name.strip())
    return ""


def line_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """Tells histories of one session apart: a hash of what was asked before the first answer."""
    asked = takewhile(lambda message: message["role"] != "assistant", messages)
    return wire.digest_of(*[m for m in asked if m["role"] not in ("system", "developer")])


def is_agents(headers: Headers) -> bool:
    """Return whether a runtime of agents names its session by a header of its own."""
    given = _by_name(headers)
    return any(given.get(name) for name in _SESSION_HEADERS[1:])


def _bounded(name: str) -> str:
    name = "".join(letter if letter.isprintable() else "_" for letter in name)
    return (
        name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 33]}-{wire.digest_of(name)}"
    )
