"""The routing of a request by its path and headers, and the headers that are forwarded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from contextrender_bridge.asgi import Headers
from contextrender_bridge.base import wire
from contextrender_bridge.base.settings import Settings

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
_ANTHROPIC_HEADERS = (b"anthropic-version", b"anthropic-beta")


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
    - `plain`: the body is not compressed.
    - `headers`, `onward`: the headers from the agent, and those to forward.
    """

    target: Target
    method: str
    url: str
    dialect: str
    plain: bool
    headers: Headers = field(repr=False)
    onward: Headers = field(repr=False)

    @classmethod
    def of(cls, scope: Any, settings: Settings) -> Request:
        """Return the request of an ASGI scope. Its `url` is empty if the path is not allowed."""
        raw = scope.get("raw_path") or scope["path"].encode()
        target = Target.of(raw.decode("latin-1"))
        method, headers, query = scope["method"], scope["headers"], scope["query_string"]
        # A `#` would end the address there.
        is_allowed = target.is_below_base and b"#" not in query
        return cls(
            target=target,
            method=method,
            url=_upstream_url(settings, target, headers, query) if is_allowed else "",
            dialect=DIALECT_OF_PATH.get(target.path, "") if method == "POST" else "",
            plain=is_plain(headers),
            headers=headers,
            onward=request_headers(headers),
        )


def _upstream_url(settings: Settings, target: Target, headers: Headers, query: bytes) -> str:
    """Return the address at the provider that a request is forwarded to.

    The base address in the settings ends in a version such as `/v1`. If the agent's path has no
    version, it may be meant for the provider's root. So unless the path is that of a model call,
    remove the version from the base address.
    """
    has_header = any(first(headers, name) for name in _ANTHROPIC_HEADERS)
    is_anthropic = has_header or target.path.startswith("/messages")
    base = settings.anthropic_upstream if is_anthropic else settings.upstream
    if not target.versioned and target.path not in DIALECT_OF_PATH:
        base = _VERSION.sub("", base)
    return f"{base}{target.path}" + (f"?{query.decode('latin-1')}" if query else "")


def bearer(headers: Headers) -> str | None:
    """Return the bearer token in the header `Authorization`, or None if there is none."""
    scheme, _, token = first(headers, b"authorization").partition(" ")
    if scheme.lower() != "bearer":
        return None
    return token.strip() or None


def is_plain(headers: Headers) -> bool:
    """Return whether the headers declare an uncompressed body."""
    return first(headers, b"content-encoding") in ("", "identity")


def json_body(headers: Headers, raw: bytes) -> dict[str, Any] | None:
    """Return the body as a JSON object, or None if it is compressed or not a JSON object."""
    if not is_plain(headers):
        return None
    try:
        body = wire.loads(raw)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


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
