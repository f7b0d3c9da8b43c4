"""What a request asks of the proxy by header, and whose session it belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from contextrender_bridge.base.setting_kinds import MODES, POLICIES, Unfit, as_patterns, budget_of
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client.session_names import digest_of, name_of
from contextrender_bridge.proxy.headers import Headers, first

_SESSION_HEADERS = (
    b"x-contextrender-session",
    b"x-session-id",
    b"x-claude-code-session-id",
    b"session-id",
    b"session_id",
)
_CALLER_HEADERS = (b"authorization", b"x-api-key", b"api-key")
LONGEST_NAME = 200


class InvalidControl(ValueError):
    """A control header has a value that it cannot have; `args` is the header's name."""


@dataclass(frozen=True)
class Controls:
    """One request's settings. `token` is the caller's own for the service, if one came.

    `trusted` callers are served with the proxy's token where they bring none. `whole`: the request
    is an agent's own compaction, which needs all of the history. `bypass_tools` are names and globs
    of tools whose results are never touched; those of the tools `keep_tools` and of the calls with
    the ids `keep` stay while there is room. `holdout` is the share of sessions that go whole, and
    `held_out` says that this is one.
    """

    mode: str
    budget: int | str | None
    policy: str | None
    recall: bool
    token: str | None = field(repr=False)
    trusted: bool = False
    whole: bool = False
    bypass_tools: frozenset[str] = frozenset()
    keep_tools: frozenset[str] = frozenset()
    keep: frozenset[str] = frozenset()
    holdout: float = 0.0
    held_out: bool = False

    @property
    def identified(self) -> bool:
        """Whether it is known in whose sessions to look."""
        return self.trusted or self.token is not None

    @property
    def sent(self) -> str:
        """What goes to the model, as the service notes it of the call."""
        if self.held_out:
            return "held_out"
        return "rendered" if self.mode == "render" else "whole"

    @property
    def whole_for(self) -> str:
        """Why it goes whole though the proxy renders; empty where it does not."""
        if self.held_out:
            return "holdout"
        return "compaction" if self.whole else ""

    @classmethod
    def of(cls, headers: Headers, settings: Settings, *, trusted: bool = False) -> Controls:
        """From the headers, else the proxy's own. Raises InvalidControl."""
        mode = first(headers, b"x-contextrender-mode") or settings.mode
        if mode not in MODES:
            raise InvalidControl("mode")
        budget = first(headers, b"x-contextrender-budget")
        policy = first(headers, b"x-contextrender-policy") or settings.policy
        if policy and policy not in POLICIES:
            raise InvalidControl("policy")
        return cls(
            mode=mode,
            budget=_budget(budget) if budget else settings.budget,
            policy=policy,
            recall=_switch(headers, "recall", settings.recall),
            whole=_switch(headers, "compaction", False),
            token=first(headers, b"x-contextrender-token") or None,
            trusted=trusted,
            bypass_tools=_names(headers, "bypass-tools", settings.bypass_tools),
            keep_tools=_names(headers, "keep-tools", settings.keep_tools),
            keep=_names(headers, "keep", frozenset()),
            holdout=settings.holdout,
        )

    def for_request(self, session: str, *, compacts: bool) -> Controls:
        """These, or where the session is held out, or the agent `compacts`, those for a request
        that goes through whole, and is recorded.
        """
        whole = self.mode == "render" and (self.whole or compacts)
        held_out = self.mode == "render" and is_held_out(session, self.holdout)
        if not (whole or held_out):
            return replace(self, whole=False)
        return replace(self, mode="observe", recall=False, whole=whole, held_out=held_out)


def _budget(text: str) -> int | str:
    budget = budget_of(text)
    if budget is None:
        raise InvalidControl("budget")
    return budget


def _switch(headers: Headers, name: str, default: bool) -> bool:
    given = first(headers, f"x-contextrender-{name}".encode()).lower()
    return given in ("1", "true", "yes", "on") if given else default


def _names(headers: Headers, name: str, default: frozenset[str]) -> frozenset[str]:
    given = first(headers, f"x-contextrender-{name}".encode())
    try:
        return as_patterns(given) if given else default
    except Unfit:
        raise InvalidControl(name) from None


def is_held_out(session: str, share: float) -> bool:
    """Whether a session is of the share that goes whole: the same one always is."""
    digest = hashlib.sha256(f"holdout {session}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def session_of(
    path: str, headers: Headers, body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]
) -> str:
    """The session's name: by path, header, or `prompt_cache_key`; else made from how it begins.

    A name made so also depends on the caller's key for the provider: two callers that begin alike
    have two sessions.
    """
    cache_key = body.get("prompt_cache_key")
    named = [path, *(first(headers, name) for name in _SESSION_HEADERS)]
    named.append(cache_key if isinstance(cache_key, str) else "")
    for name in named:
        if name.strip():
            return _bounded(name.strip())
    caller = next((value for name in _CALLER_HEADERS if (value := first(headers, name))), "")
    return name_of(messages, caller)


def line_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """Tells histories of one session apart: a hash of what was asked before the first answer."""
    spoken = (m for m in messages if m["role"] not in ("system", "developer"))
    return digest_of(*takewhile(lambda message: message["role"] != "assistant", spoken))


def _bounded(name: str) -> str:
    name = "".join(letter if letter.isprintable() else "_" for letter in name)
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 33]}-{digest_of(name)}"
