"""Headers: those of one connection, which a proxy does not pass on, and our own."""

from __future__ import annotations

from collections.abc import Iterable

Headers = list[tuple[bytes, bytes]]

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
