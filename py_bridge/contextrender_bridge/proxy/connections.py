"""Connections to providers: aiohttp's, a fifth of the processor time a call that httpx takes.

What is above them sees httpx's replies and errors.
"""

from __future__ import annotations

import io
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from yarl import URL

from contextrender_bridge.asgi import Headers
from contextrender_bridge.base.errors import ServerError
from contextrender_bridge.base.spans import span
from contextrender_bridge.client.credentials import LOOPBACK
from contextrender_bridge.proxy.surroundings import proxy_fault, trusted_certificates

CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 20.0
LONGEST_HEADER = 2**17
LARGE_BODY = 2**20
"""Larger ones are written in pieces, so that others' replies go on meanwhile."""
STALE_SECONDS = 2.0
"""A provider ends connections that rest. Where it ended one as a request was on its way there, that
shows within so many seconds; what breaks off later may have been worked on."""

Content = bytes | AsyncIterator[bytes]

_NOT_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Unavailable(ServerError):
    """The provider gave no answer: 504 if it was silent for too long, otherwise 502."""

    def __init__(self, reason: str, *, is_late: bool) -> None:
        status, code = (504, "upstream_timeout") if is_late else (502, "upstream_unavailable")
        super().__init__(f"The provider gave no answer ({reason}).", code=code, status=status)


class EnvironmentFault(ValueError):
    """A variable of the user's environment keeps a connection from being opened."""


class Connections:
    """Kept alive, and as many as there are calls, of the event loop that asks first."""

    def __init__(self, silence: float) -> None:
        """A provider may say nothing for `silence` seconds. Proxies are the environment's."""
        self._silence = silence
        self._proxies = getproxies()
        self._session: aiohttp.ClientSession | None = None
        self._fault = ""

    @asynccontextmanager
    async def answer(
        self, method: str, url: str, headers: Headers, content: Content
    ) -> AsyncIterator[httpx.Response]:
        """The provider's reply, its body unread. Raises Unavailable."""
        try:
            with span("provider request", server__address=httpx.URL(url).host):
                response = await self.ask(method, url, headers, content)
        except httpx.HTTPError as error:
            is_late = isinstance(error, httpx.ReadTimeout)
            raise Unavailable(_told(error, url), is_late=is_late) from error
        try:
            yield response
        finally:
            await response.aclose()

    async def ask(
        self, method: str, url: str, headers: Headers, content: Content
    ) -> httpx.Response:
        """The reply, its body unread: headers and body go out as they are, and come in so.

        Asked again where the provider had ended a resting connection. Raises httpx.HTTPError.
        """
        until = time.monotonic() + STALE_SECONDS
        while True:
            attempt = _Attempt()
            try:
                response = await self._send(method, url, headers, content, attempt)
            except (aiohttp.ClientError, OSError, ValueError) as error:
                again = attempt.rested and _is_cut_off(error) and isinstance(content, bytes)
                if not again or time.monotonic() > until:
                    raise _failure(error) from error
            else:
                return httpx.Response(
                    response.status, headers=list(response.raw_headers), stream=_Body(response)
                )

    async def close(self) -> None:
        """Closes all."""
        if self._session is not None:
            await self._session.close()

    async def _send(
        self, method: str, url: str, headers: Headers, content: Content, attempt: _Attempt
    ) -> aiohttp.ClientResponse:
        target = URL(url, encoded=True)
        proxy = self._proxy(target)
        self._session = self._session or self._opened()
        if self._fault and target.scheme == "https":
            raise EnvironmentFault(self._fault)
        data: Any = content or None
        if isinstance(content, bytes) and len(content) > LARGE_BODY:
            data = io.BytesIO(content)
        return await self._session.request(
            method,
            target,
            data=data,
            headers=[(name.decode("latin-1"), _text(value)) for name, value in headers],
            skip_auto_headers=_NOT_ADDED,
            allow_redirects=False,
            proxy=proxy,
            trace_request_ctx=attempt,
        )

    def _opened(self) -> aiohttp.ClientSession:
        found, self._fault = trusted_certificates()
        # Without certificates no connection with TLS is opened; others work.
        trusted = found or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusted.set_alpn_protocols(["http/1.1"])
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=KEEPALIVE_SECONDS, ssl=trusted
            ),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_SECONDS, sock_read=self._silence
            ),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=LONGEST_HEADER,
            max_field_size=LONGEST_HEADER,
            trace_configs=[_noting_rest()],
        )

    def _proxy(self, url: URL) -> str | None:
        """The environment's proxy for it; none reaches a provider on this machine."""
        host = url.host or ""
        if not self._proxies or host in LOOPBACK or proxy_bypass(host):
            return None
        named = self._proxies.get(url.scheme) or self._proxies.get("all")
        if named and (fault := proxy_fault(named)):
            raise EnvironmentFault(fault)
        return f"http://{named}" if named and "://" not in named else named


class _Body(httpx.AsyncByteStream):
    """A reply's body as it comes."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._response.content.iter_any():
                yield piece
        except (aiohttp.ClientError, OSError) as error:
            raise _failure(error) from error

    async def aclose(self) -> None:
        """Of a body that was not read to its end, the connection is given up."""
        self._response.close()


@dataclass(slots=True)
class _Attempt:
    """A request's one try; whether its connection had `rested` since an earlier request."""

    rested: bool = False


def _noting_rest() -> aiohttp.TraceConfig:
    async def note(_: aiohttp.ClientSession, context: Any, __: object) -> None:
        context.trace_request_ctx.rested = True

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(note)
    return config


def _is_cut_off(error: Exception) -> bool:
    """Whether the connection ended before any reply."""
    return isinstance(
        error,
        (
            aiohttp.ServerDisconnectedError,
            aiohttp.ClientOSError,
            aiohttp.ClientConnectionResetError,
        ),
    )


def _text(value: bytes) -> str:
    """A header's value: aiohttp writes UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _told(error: httpx.HTTPError, url: str) -> str:
    """Return the kind of a failure and the provider's address, with the reason if it is known."""
    reason = f": {error}" if isinstance(error.__cause__, EnvironmentFault) else ""
    return f"{type(error).__name__} at {httpx.URL(url).netloc.decode()}{reason}"


def _failure(error: Exception) -> httpx.HTTPError:
    """The same in httpx's words."""
    said = str(error) or type(error).__name__
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return httpx.ConnectTimeout(said)
    if isinstance(error, aiohttp.ServerTimeoutError):
        return httpx.ReadTimeout(said)
    if isinstance(error, aiohttp.ClientConnectorError):
        return httpx.ConnectError(said)
    if isinstance(error, (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)):
        return httpx.RemoteProtocolError(said)
    if isinstance(error, EnvironmentFault):
        return httpx.ConnectError(said)
    if isinstance(error, ValueError):
        return httpx.UnsupportedProtocol(said)
    return httpx.ReadError(said)
