"""An agent's request: its provider's address, its settings, its session and its headers.

Long because all of these are read from the same path and headers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any
from urllib.parse import unquote

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

OWN_PREFIX = b"x-contextrender-"
"""The prefix of ContextRender's own headers."""
_CONNECTION_HEADERS = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_SET_AGAIN = frozenset({b"host", b"content-length", b"expect"})
"""Headers of a request that are set again for the provider's address and the new body."""
COMPRESS = "/compress"
COMPACT = "/compact"
RETRIEVE = "/retrieve/"
DIALECT_OF_PATH = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "messages",
}
_ELSEWHERE = re.compile(r"(^|/)\.{1,2}(/|$|;)|//|[\0-\x1f]")
"""Parts of a path that may leave the provider's base address: `..`, `//`, control characters."""
_VERSION = re.compile(r"/v\d\w*$")
_ANTHROPIC_HEADERS = ("anthropic-version", "anthropic-beta")
_SESSION_HEADERS = (
    "x-contextrender-session",
    "x-session-id",
    "x-claude-code-session-id",
    "session-id",
    "session_id",
)
_CALLER_HEADERS = ("authorization", "x-api-key", "api-key")
MAX_NAME_CHARS = 200
LONGEST_CLIENT = 40


@dataclass(frozen=True)
class Target:
    """The parts of a request's path, such as `/k/SECRET/s/SESSION/v1/responses`.

    `secret` and `session` are empty if the path has none. `path` is what follows `/v1`, here
    `/responses`. `versioned` is false if the path has no `/v1`; `path` is then all of the rest.
    """

    session: str
    path: str
    versioned: bool = True
    secret: str = field(default="", repr=False)

    @property
    def is_below_base(self) -> bool:
        """True if the path stays below the provider's base address: it has no `..`, `//` or `#`.

        The path is decoded twice before the check, because the provider may decode it again.
        """
        plain = unquote(unquote(self.path)).replace("\\", "/")
        is_path = plain.startswith("/") or not plain  # the path of `OPTIONS *` is no path
        return is_path and not (_ELSEWHERE.search(plain) or "#" in self.path)

    @property
    def is_own_endpoint(self) -> bool:
        """True for the proxy's own endpoints `compress`, `compact` and `retrieve`."""
        return self.path in (COMPRESS, COMPACT) or self.path.startswith(RETRIEVE)

    @classmethod
    def of(cls, path: str) -> Target:
        """Return the parts of a path like `/s/my-session/v1/responses`.

        The session and the version may be missing.
        """
        secret, path = _split_off("/k/", path)
        session, path = _split_off("/s/", path)
        if path == "/v1" or path.startswith("/v1/"):
            return cls(session, path[3:], secret=secret)
        return cls(session, path, versioned=False, secret=secret)


def _split_off(prefix: str, path: str) -> tuple[str, str]:
    """Return the path segment after `prefix`, and the path after that segment.

    For `/s/` and `/s/name/v1`, return `name` and `/v1`. If the path does not begin with `prefix`,
    return an empty name and the whole path.
    """
    if not path.startswith(prefix):
        return "", path
    name, slash, remainder = path[len(prefix) :].partition("/")
    return unquote(name), slash + remainder


@dataclass(frozen=True)
class Request:
    """An agent's request.

    - `url`: the provider's address for the request; empty if the path is not allowed.
    - `dialect`: the request format of a model call; empty for any other request.
    - `is_own_endpoint`: the request is for one of the proxy's own endpoints.
    - `plain`: the body is not compressed.
    - `headers`, `onward`: the headers from the agent, and those to forward.
    - `values`: the first value of each header, by name.
    - `session`: the session's name in the path or a header; empty if there is none.
    - `client`: the calling program's name; empty if it is unknown.
    """

    target: Target
    method: str
    url: str
    dialect: str
    is_own_endpoint: bool
    plain: bool
    headers: Headers = field(repr=False)
    onward: Headers = field(repr=False)
    values: Mapping[str, str] = field(repr=False)
    session: str
    client: str

    @classmethod
    def of(cls, scope: Any, settings: Settings) -> Request:
        """Return the request of an ASGI scope. Its `url` is empty if the path is not allowed."""
        raw = scope.get("raw_path") or scope["path"].encode()
        target = Target.of(raw.decode("latin-1"))
        method, headers, query = scope["method"], scope["headers"], scope["query_string"]
        values = first_by_name(headers)
        # A `#` would end the address there.
        is_allowed = target.is_below_base and b"#" not in query
        return cls(
            target=target,
            method=method,
            url=_upstream_url(settings, target, values, query) if is_allowed else "",
            dialect=DIALECT_OF_PATH.get(target.path, "") if method == "POST" else "",
            is_own_endpoint=target.is_own_endpoint,
            plain=values.get("content-encoding", "") in ("", "identity"),
            headers=headers,
            onward=request_headers(headers),
            values=values,
            session=given_name(target.session, values),
            client=client_of(values),
        )


def _upstream_url(
    settings: Settings, target: Target, values: Mapping[str, str], query: bytes
) -> str:
    """Return the address at the provider that a request is forwarded to.

    The base address in the settings ends in a version such as `/v1`. If the agent's path has no
    version, it may be meant for the provider's root. So unless the path is that of a model call,
    remove the version from the base address. `values` are the request's headers.
    """
    has_header = any(values.get(name) for name in _ANTHROPIC_HEADERS)
    is_anthropic = has_header or target.path.startswith("/messages")
    base = settings.anthropic_upstream if is_anthropic else settings.upstream
    if not target.versioned and target.path not in DIALECT_OF_PATH:
        base = _VERSION.sub("", base)
    return f"{base}{target.path}" + (f"?{query.decode('latin-1')}" if query else "")


def bearer(values: Mapping[str, str]) -> str | None:
    """Return the bearer token in the header `Authorization`, or None if there is none."""
    scheme, _, token = values.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    return token.strip() or None


def request_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers to send to the provider. Our own headers are removed."""
    return [
        (name, value)
        for name, value in _passed_on(headers)
        if name not in _SET_AGAIN and not name.startswith(OWN_PREFIX)
    ]


def response_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return a provider's headers to send to the agent, without any that look like our own."""
    return [(name, value) for name, value in _passed_on(headers) if not name.startswith(OWN_PREFIX)]


def without(headers: Headers, *names: bytes) -> Headers:
    """Return the headers except those with these names."""
    return [(name, value) for name, value in headers if name not in names]


def first(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """Return the first value of the header `name`; empty if there is none."""
    return next((value.decode("latin-1") for key, value in headers if key == name), "")


def _passed_on(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers that a proxy may forward, with their names in lower case.

    Remove the headers that are meant for a single connection (RFC 9110, 7.6.1), including the
    headers that the header `Connection` names.
    """
    lowered = [(name.lower(), value) for name, value in headers]
    hop_by_hop = {
        token.strip().lower()
        for name, value in lowered
        if name == b"connection"
        for token in value.split(b",")
    }
    return [pair for pair in lowered if pair[0] not in _CONNECTION_HEADERS | hop_by_hop]


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
    def of(
        cls, values: Mapping[str, str], settings: Settings, *, is_trusted: bool = False
    ) -> Controls:
        """Return the settings in the headers. For a missing header, use the proxy's setting.

        `values` has the first value of each header, by name.

        Raise InvalidControl if a header has an invalid value.
        """
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


def first_by_name(headers: Headers) -> dict[str, str]:
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


def generated_name(values: Mapping[str, str], messages: Sequence[Mapping[str, Any]]) -> str:
    """Return a session name that is made from the first messages and the caller's provider key.

    So two callers whose histories begin alike have two sessions. The request field
    `prompt_cache_key` is not used as a name, because many people can share one value. `values` are
    the request's headers.
    """
    caller = next((value for name in _CALLER_HEADERS if (value := values.get(name))), "")
    return name_of(messages, caller)


def given_name(path: str, values: Mapping[str, str]) -> str:
    """Return the session's name in the path or a header; empty if there is none.

    `path` is the name in the path, and `values` are the headers.
    """
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


def has_session_header(values: Mapping[str, str]) -> bool:
    """Return whether a header other than ContextRender's own names the session."""
    return any(values.get(name) for name in _SESSION_HEADERS[1:])


def _bounded(name: str) -> str:
    """Return `name` made printable and cut to `MAX_NAME_CHARS`; a cut name ends with its hash."""
    name = "".join(letter if letter.isprintable() else "_" for letter in name)
    if len(name) <= MAX_NAME_CHARS:
        return name
    suffix = f"-{wire.digest_of(name)}"
    return name[: MAX_NAME_CHARS - len(suffix)] + suffix


def client_of(values: Mapping[str, str]) -> str:
    """Return the calling program's name from its `user-agent`; empty if it has none."""
    name = values.get("user-agent", "").partition("/")[0].strip()[:LONGEST_CLIENT]
    return name if name.isprintable() else ""
