"""Connections to providers, and the forwarding of requests and replies over them, byte for byte.

aiohttp takes a fifth of httpx's processor time per call. Some providers answer 200 and refuse a
long prompt within the reply: as the first event of a stream, or as a failed response. So the proxy
reads a reply until it is known to be a refusal or an answer, and sends it to the agent only then.
Long because a reply is read and sent with its connection open.
"""

from __future__ import annotations

import io
import logging
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import aiohttp
from yarl import URL

from contextrender_bridge.asgi import Headers, Message, Send
from contextrender_bridge.base.contents import Decoder, decode_body
from contextrender_bridge.base.errors import ServerError
from contextrender_bridge.base.network_proxy import network_proxy_of
from contextrender_bridge.base.spans import span
from contextrender_bridge.base.usage import ProviderReply, Usage
from contextrender_bridge.base.usage_reading import read_error_code, read_usage
from contextrender_bridge.client.credentials import LOOPBACK
from contextrender_bridge.proxy.refusals import (
    LONGEST_ERROR,
    Refusal,
    failure_code,
    has_content,
    read_refusal,
)
from contextrender_bridge.proxy.request import response_headers
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

MAX_REPLY_BYTES = 32 * 2**20
"""The largest reply, in bytes, that is kept to read its usage."""
BROKEN_OFF = "broken_off"
"""The error code of a reply whose connection failed before its end."""
ERROR = 400
"""The smallest status of an error."""

Content = bytes | AsyncIterator[bytes]

CONNECTION_ERRORS = (aiohttp.ClientError, OSError)
"""The errors of a connection that fails while a reply is read."""
_CUT_OFF = (
    aiohttp.ServerDisconnectedError,
    aiohttp.ClientOSError,
    aiohttp.ClientConnectionResetError,
)
"""The errors of a connection that ends before any reply."""
_NOT_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")

log = logging.getLogger("contextrender")


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
    ) -> AsyncIterator[ReplyStart]:
        """Yield the provider's reply with its body unread. Raise Unavailable if none comes.

        At the end of the block, close the connection, unless the body was read to its end.
        """
        try:
            target = URL(url, encoded=True)
            with span("provider request", server__address=target.host or ""):
                response = await self._ask(method, target, headers, content)
        except (*CONNECTION_ERRORS, ValueError) as error:
            reason = f": {error}" if isinstance(error, EnvironmentFault) else ""
            address = urlsplit(url).netloc.rpartition("@")[2]
            raise _unavailable(error, f" at {address}{reason}") from error
        try:
            yield ReplyStart(response)
        finally:
            response.close()

    async def _ask(
        self, method: str, target: URL, headers: Headers, content: Content
    ) -> aiohttp.ClientResponse:
        """Send a request unchanged, and return the reply with its body unread.

        A provider may close an idle connection just when it is used again. Then send the request
        again, on another connection. Raise an error of aiohttp, OSError or ValueError if no reply
        comes.
        """
        deadline = time.monotonic() + STALE_SECONDS
        while True:
            attempt = _Attempt()
            try:
                return await self._send(method, target, headers, content, attempt)
            except _CUT_OFF:
                can_repeat = attempt.was_idle and isinstance(content, bytes)  # not an iterator
                if not can_repeat or time.monotonic() > deadline:
                    raise

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _send(
        self, method: str, target: URL, headers: Headers, content: Content, attempt: _Attempt
    ) -> aiohttp.ClientResponse:
        """Send a request once, and return the reply. `attempt` records if a connection was reused.

        Raise an error of aiohttp, OSError or ValueError if it fails.
        """
        # Open a session at the first request, and find the network proxy of the address.
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


def _header_text(value: bytes) -> str:
    """Decode a header's value as UTF-8, or as Latin-1 if it is no UTF-8.

    aiohttp writes the text as UTF-8, so a valid UTF-8 value is sent unchanged.
    """
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _unavailable(error: Exception, details: str = "") -> Unavailable:
    """Return the error for a provider that gives no answer, with the kind of the failure."""
    is_late = isinstance(error, aiohttp.SocketTimeoutError)
    return Unavailable(f"{type(error).__name__}{details}", is_late=is_late)


class ReplyStart:
    """The first bytes of a reply. `read` sets `refusal` if they refuse the prompt as too long."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        """Wrap a response without reading it. `read` reads its first bytes."""
        self.response = response
        self.chunks: list[bytes] = []
        self.refusal: Refusal | None = None
        self._remaining_chunks = response.content.iter_any()
        self._decoder = Decoder(", ".join(response.headers.getall("content-encoding", ())))
        self._text = bytearray()

    @property
    def is_refused(self) -> bool:
        """True if the provider refused the request, for any reason."""
        return self.refusal is not None or self.response.status >= ERROR

    async def read(self) -> ReplyStart:
        """Read until the reply is known to be an answer or a refusal, and set `refusal`.

        Stop at the first content of an answer, or if the reply cannot be decoded. Read an error up
        to `LONGEST_ERROR` bytes. Raise Unavailable if the connection fails before the first byte,
        or within an error.
        """
        is_stream = "event-stream" in self.response.headers.get("content-type", "")
        is_error = self.response.status >= ERROR
        try:
            # A piece may be decoded to nothing. So count the encoded bytes, too.
            while max(len(self._text), sum(map(len, self.chunks))) < LONGEST_ERROR:
                chunk = await anext(self._remaining_chunks, None)
                if chunk is None:
                    break
                self.chunks.append(chunk)
                for part in self._decoder.feed(chunk):
                    self._text += part
                    if len(self._text) >= LONGEST_ERROR:
                        break
                if self._decoder.is_broken:
                    break
                if not is_error and has_content(bytes(self._text), is_stream=is_stream):
                    return self
        except CONNECTION_ERRORS as error:
            if self.chunks and not is_error:
                # Pass on the part of the answer that has arrived.
                return self
            raise _unavailable(error) from error
        text, status = bytes(self._text), self.response.status
        self.refusal = read_refusal(status, text, is_error=is_error, is_stream=is_stream)
        return self

    async def body(self) -> AsyncIterator[bytes]:
        """Yield all bytes of the reply, unchanged."""
        for chunk in self.chunks:
            yield chunk
        async for chunk in self._remaining_chunks:
            yield chunk


class UsageCapture:
    """A function that forwards a reply to the agent, and keeps a copy to read the usage from."""

    def __init__(self, send: Send) -> None:
        """Forward the reply through `send`."""
        self._send = send
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._body = bytearray()
        self._has_ended = False
        self._started_at = time.monotonic()
        self._first_byte_ms = self._reply_ms = 0

    async def __call__(self, message: Message) -> None:
        """Forward one ASGI message of the reply, and keep a copy."""
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], dict(message["headers"])
        else:
            self._has_ended = not message.get("more_body")
            if len(self._body) < MAX_REPLY_BYTES:
                self._body += message.get("body", b"")
        if message.get("body"):
            # Each message with a body sets the reply's time anew, so the last one remains. Only the
            # first one sets the time of the first byte.
            self._reply_ms = max(1, round(1000 * (time.monotonic() - self._started_at)))
            self._first_byte_ms = self._first_byte_ms or self._reply_ms
        await self._send(message)

    def reply(self) -> ProviderReply:
        """Return the provider's reply. Its times count from the creation of this object."""
        return ProviderReply(self._first_byte_ms, self._reply_ms, self._status, self._error_code())

    def _error_code(self) -> str:
        """Return the provider's code of a failure; empty if there is none.

        A reply with an accepting status may fail, too: it may break off or end with an error.
        """
        if not self.is_accepted:
            return read_error_code(self.plain_body)
        if not self._has_ended:
            return BROKEN_OFF
        return failure_code(self.plain_body, is_stream=self.is_accepted_stream)

    @property
    def is_accepted(self) -> bool:
        """True if the provider accepted the request."""
        return 200 <= self._status < 300

    @property
    def is_accepted_stream(self) -> bool:
        """True if the provider accepted the request, and the reply is a stream of events."""
        return self.is_accepted and "event-stream" in self.content_type

    def usage(self) -> Usage | None:
        """Return the usage in the reply, or None if the reply is a refusal or has no usage."""
        return read_usage(self.content_type, self.plain_body) if self.is_accepted else None

    @property
    def content_type(self) -> str:
        """The value of the header `content-type`."""
        return self._headers.get(b"content-type", b"").decode("latin-1")

    @cached_property
    def plain_body(self) -> bytes:
        """The decompressed body; empty if it cannot be decompressed."""
        codings = self._headers.get(b"content-encoding", b"").decode("latin-1")
        return decode_body(codings, bytes(self._body), MAX_REPLY_BYTES)


async def pass_on(
    http: Connections,
    method: str,
    url: str,
    headers: Headers,
    content: Content,
    send: Send,
    added: Headers,
) -> None:
    """Forward a request to the provider, and the provider's reply to the agent.

    `added` are our own headers of the reply. Raise Unavailable if the provider gives no answer.
    """
    async with http.answer(method, url, headers, content) as start:
        await relay(start, send, added)


async def relay(start: ReplyStart, send: Send, added: Headers) -> None:
    """Forward a provider's reply to the agent, with our own headers `added`.

    A part of the reply's body may have been read before. If the connection fails, log it and return
    without the end of the reply, so that the agent gets an incomplete reply, too.
    """
    status, headers = start.response.status, response_headers(start.response.raw_headers)
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *added]})
    try:
        async for chunk in start.body():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except CONNECTION_ERRORS as error:
        log.warning("the provider's reply broke off (%s)", type(error).__name__)
        return
    await send({"type": "http.response.body", "body": b"", "more_body": False})
