"""Where a request goes, by its path and headers, and which headers are passed on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from contextrender_bridge.asgi import Headers
from contextrender_bridge.base import wire
from contextrender_bridge.base.settings import Settings

OURS = b"x-contextrender-"
_OF_A_CONNECTION = frozenset(
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
_OF_A_REQUEST = frozenset({b"host", b"content-length", b"expect"})
COMPRESS = "/compress"
COMPACT = "/compact"
RETRIEVE = "/retrieve/"
DIALECT_OF_PATH = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "messages",
}
_ELSEWHERE = re.compile(r"(^|/)\.{1,2}(/|$|;)|//|[\0-\x1f]")
"""In a path: a step up, another host, what ends a line."""
_VERSION = re.compile(r"/v\d\w*$")
_ANTHROPIC = (b"anthropic-version", b"anthropic-beta")


@dataclass(frozen=True)
class Target:
    """Where a request goes: the session its path names, and the path after the version, if any.

    `secret` is that of a link such as `/k/SECRET/v1`.
    """

    session: str
    path: str
    versioned: bool = True
    secret: str = field(default="", repr=False)

    @property
    def is_below(self) -> bool:
        """Whether its path stays below the address that it is put behind, however that reads it."""
        plain = unquote(unquote(self.path)).replace("\\", "/")
        return not (_ELSEWHERE.search(plain) or "#" in self.path)

    @property
    def compresses(self) -> bool:
        """Return whether the service itself answers it, for a gateway or an agent's plugin."""
        return self.path in (COMPRESS, COMPACT) or self.path.startswith(RETRIEVE)

    @classmethod
    def of(cls, path: str) -> Target:
        """From a path such as `/s/my-session/v1/responses`; session and version may be missing."""
        secret, path = _taken("/k/", path)
        session, path = _taken("/s/", path)
        if path == "/v1" or path.startswith("/v1/"):
            return cls(session, path[3:], secret=secret)
        return cls(session, path, versioned=False, secret=secret)


def _taken(mark: str, path: str) -> tuple[str, str]:
    """What a path names behind a mark at its beginning, and the rest of it."""
    if not path.startswith(mark):
        return "", path
    name, slash, rest = path[len(mark) :].partition("/")
    return unquote(name), slash + rest


@dataclass(frozen=True)
class Request:
    """An agent's request: the `headers` that came, those that go `onward`, the provider's `url`,
    which is empty where the path may not be asked for. `dialect` is that of a model call; its body
    is `plain` unless compressed.
    """

    target: Target
    method: str
    url: str
    dialect: str
    compresses: bool
    plain: bool
    headers: Headers = field(repr=False)
    onward: Headers = field(repr=False)

    @classmethod
    def of(cls, scope: Any, settings: Settings) -> Request:
        """As ASGI tells it."""
        raw = scope.get("raw_path") or scope["path"].encode()
        target = Target.of(raw.decode("latin-1"))
        method, headers, query = scope["method"], scope["headers"], scope["query_string"]
        below = target.is_below and b"#" not in query
        return cls(
            target=target,
            method=method,
            url=_upstream_url(settings, target, headers, query) if below else "",
            dialect=DIALECT_OF_PATH.get(target.path, "") if method == "POST" else "",
            compresses=target.compresses,
            plain=is_plain(headers),
            headers=headers,
            onward=request_headers(headers),
        )


def _upstream_url(settings: Settings, target: Target, headers: Headers, query: bytes) -> str:
    anthropic = target.path.startswith("/messages") or any(first(headers, h) for h in _ANTHROPIC)
    base = settings.anthropic_upstream if anthropic else settings.upstream
    if not target.versioned and target.path not in DIALECT_OF_PATH:
        base = _VERSION.sub("", base)
    return f"{base}{target.path}" + (f"?{query.decode('latin-1')}" if query else "")


def bearer(headers: Headers) -> str | None:
    """The token in `Authorization`."""
    scheme, _, token = first(headers, b"authorization").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def is_plain(headers: Headers) -> bool:
    """Whether a body is as it is, not compressed."""
    return first(headers, b"content-encoding") in ("", "identity")


def json_body(headers: Headers, raw: bytes) -> dict[str, Any] | None:
    """The request as JSON; None when it is nothing that we read."""
    if not is_plain(headers):
        return None
    try:
        body = wire.loads(raw)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def request_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Those to send to the provider; it gets its own host and length."""
    return [
        (name, value)
        for name, value in _passed_on(headers)
        if name not in _OF_A_REQUEST and not name.startswith(OURS)
    ]


def response_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Those to send to the agent."""
    return [(name, value) for name, value in _passed_on(headers) if not name.startswith(OURS)]


def without(headers: Headers, *names: bytes) -> Headers:
    """The headers but for some."""
    return [(name, value) for name, value in headers if name not in names]


def first(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """The first value of that name; empty when there is none."""
    return next((value.decode("latin-1") for key, value in headers if key == name), "")


def _passed_on(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    lowered = [(name.lower(), value) for name, value in headers]
    named = {
        token.strip().lower()
        for name, value in lowered
        if name == b"connection"
        for token in value.split(b",")
    }
    return [pair for pair in lowered if pair[0] not in _OF_A_CONNECTION | named]
