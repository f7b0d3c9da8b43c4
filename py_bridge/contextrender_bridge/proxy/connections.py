"""Connections to providers by aiohttp, which takes a fifth of httpx's processor time per call.

Callers get httpx's types of replies and errors. Long because it converts between both libraries.
"""

from __future__ import annotations

import io
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.request import getproxies

import aiohttp
import httpx
from yarl import URL

from contextrender_bridge.asgi import Headers
from contextrender_bridge.base.errors import ServerError
from contextrender_bridge.base.network_proxy import network_proxy_of
from contextrender_bridge.base.spans import span
from contextrender_bridge.client.credentials import LOOPBACK
from contextrender_bridge.proxy.surroundings import proxy_fault, trusted_certificates

CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 20.0
LONGEST_HEADER = 2**17
LARGE_BODY = 2**20
"""A body of more bytes is written in pieces, so that it does not delay other replies."""
STALE_SECONDS = 2.0
"""A request over an idle connection may be repeated if it fails within this time.

The provider had closed the connection then. A request that fails later may have been processed.
"""

Content = bytes | AsyncIterator[bytes]

_NOT_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Unavailable(ServerError):
    """Raised when a provider gives no answer: 504 if it was silent too long, 502 otherwise."""

    def __init__(self, reason: str, *, is_late: bool) -> None:
        status, code = (504, "upstream_timeout") if is_late else (502, "upstream_unavailable")
        super().__init__(f"The provider gave no answer ({reason}).", code=code, status=status)


class EnvironmentFault(ValueError):
    """Raised when an environment variable prevents connections."""


class Connections:
    """A pool of HTTP/1.1 connections to providers, one per open call, kept alive between calls.

    All calls must come from one event loop.
    """

    def __init__(self, max_silence: float) -> None:
        """Wait at most `max_silence` seconds for each next byte of a provider."""
        self._max_silence = max_silence
        self._proxies = getproxies()
        self._session: aiohttp.ClientSession | None = None
        self._certificate_fault = ""
        """The reason why the trusted certificates cannot be read; empty if they can."""

    @asynccontextmanager
    async def answer(
        self, method: str, url: str, headers: Headers, content: Content
    ) -> AsyncIterator[httpx.Response]:
        """Yield the provider's reply with its body unread. Raise Unavailable if none comes."""
        try:
            with span("provider request", server__address=httpx.URL(url).host):
                response = await self.ask(method, url, headers, content)
        except httpx.HTTPError as error:
            is_late = isinstance(error, httpx.ReadTimeout)
            raise Unavailable(_failure_text(error, url), is_late=is_late) from error
        try:
            yield response
        finally:
            await response.aclose()

    async def ask(
        self, method: str, url: str, headers: Headers, content: Content
    ) -> httpx.Response:
        """Send a request unchanged, and return the reply with its body unread.

        A provider may close an idle connection just when it is used again. Then send the request
        again, on another connection. Raise httpx.HTTPError if no reply comes.
        """
        deadline = time.monotonic() + STALE_SECONDS
        while True:
            attempt = _Attempt()
            try:
                response = await self._send(method, url, headers, content, attempt)
            except (aiohttp.ClientError, OSError, ValueError) as error:
                was_closed = attempt.was_idle and _is_cut_off(error)
                can_repeat = was_closed and isinstance(content, bytes)  # an iterator is used up
                if not can_repeat or time.monotonic() > deadline:
                    raise _httpx_error(error) from error
            else:
                return httpx.Response(
                    response.status, headers=list(response.raw_headers), stream=_Body(response)
                )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _send(
        self, method: str, url: str, headers: Headers, content: Content, attempt: _Attempt
    ) -> aiohttp.ClientResponse:
        """Send a request once, and return the reply. `attempt` records if a connection was reused.

        Raise an error of aiohttp, OSError or ValueError if it fails.
        """
        # Open a session at the first request, and find the network proxy of the address.
        target = URL(url, encoded=True)
        proxy = self._proxy(target)
        self._session = self._session or self._open_session()
        if self._certificate_fault and target.scheme == "https":
            raise EnvironmentFault(self._certificate_fault)
        data: Any = content or None
        if isinstance(content, bytes) and len(content) > LARGE_BODY:
            # aiohttp writes bytes at once, but a file object in pieces.
            data = io.BytesIO(content)
        # aiohttp must add no headers and follow no redirects, so that the request is unchanged.
        return await self._session.request(
            method,
            target,
            data=data,
            headers=[(name.decode("latin-1"), _header_text(value)) for name, value in headers],
            skip_auto_headers=_NOT_ADDED,
            allow_redirects=False,
            proxy=proxy,
            trace_request_ctx=attempt,
        )

    def _open_session(self) -> aiohttp.ClientSession:
        """Return a new session of aiohttp, and set `_certificate_fault`.

        Replies are forwarded unchanged, so the session decompresses none and keeps no cookies.
        """
        certificates, self._certificate_fault = trusted_certificates()
        # Without certificates, connections without TLS still work.
        context = certificates or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_alpn_protocols(["http/1.1"])
        # `limit=0` allows any number of connections, and `total=None` calls of any length. Only the
        # provider's silence is limited (`sock_read`).
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=KEEPALIVE_SECONDS, ssl=context
            ),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_SECONDS, sock_read=self._max_silence
            ),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=LONGEST_HEADER,
            max_field_size=LONGEST_HEADER,
            trace_configs=[_trace_idle_connections()],
        )

    def _proxy(self, url: URL) -> str | None:
        """Return the environment's network proxy for a URL, or None to connect directly."""
        if not self._proxies or url.host in LOOPBACK:
            return None
        proxy = network_proxy_of(str(url.origin()), self._proxies)
        if proxy and (fault := proxy_fault(proxy)):
            raise EnvironmentFault(fault)
        return proxy


class _Body(httpx.AsyncByteStream):
    """A reply's body, whose bytes are not changed."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the bytes as they arrive. Raise httpx's error if the connection fails."""
        try:
            async for piece in self._response.content.iter_any():
                yield piece
        except (aiohttp.ClientError, OSError) as error:
            raise _httpx_error(error) from error

    async def aclose(self) -> None:
        """Close the connection, unless the body was read to its end."""
        self._response.close()


@dataclass(slots=True)
class _Attempt:
    """One attempt to send a request. `was_idle` is true if it reused an idle connection."""

    was_idle: bool = False


def _trace_idle_connections() -> aiohttp.TraceConfig:
    """Return a trace that sets `_Attempt.was_idle` if a request reuses an idle connection."""

    async def set_was_idle(_: aiohttp.ClientSession, context: Any, __: object) -> None:
        context.trace_request_ctx.was_idle = True

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(set_was_idle)
    return config


def _is_cut_off(error: Exception) -> bool:
    """Return whether the connection ended before any reply."""
    return isinstance(
        error,
        (
            aiohttp.ServerDisconnectedError,
            aiohttp.ClientOSError,
            aiohttp.ClientConnectionResetError,
        ),
    )


def _header_text(value: bytes) -> str:
    """Decode a header's value as UTF-8, or as Latin-1 if it is no UTF-8.

    aiohttp writes the text as UTF-8, so a valid UTF-8 value is sent unchanged.
    """
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _failure_text(error: httpx.HTTPError, url: str) -> str:
    """Return the kind of a failure and the provider's address, with the reason if it is known."""
    reason = f": {error}" if isinstance(error.__cause__, EnvironmentFault) else ""
    return f"{type(error).__name__} at {httpx.URL(url).netloc.decode()}{reason}"


def _httpx_error(error: Exception) -> httpx.HTTPError:
    """Return the httpx error that corresponds to an error of aiohttp or the system."""
    message = str(error) or type(error).__name__
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return httpx.ConnectTimeout(message)
    if isinstance(error, aiohttp.ServerTimeoutError):
        return httpx.ReadTimeout(message)
    if isinstance(error, aiohttp.ClientConnectorError):
        return httpx.ConnectError(message)
    if isinstance(error, (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)):
        return httpx.RemoteProtocolError(message)
    if isinstance(error, EnvironmentFault):
        return httpx.ConnectError(message)
    if isinstance(error, ValueError):
        return httpx.UnsupportedProtocol(message)
    return httpx.ReadError(message)
