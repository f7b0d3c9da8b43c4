"""Forwarding of requests to a provider, and of its replies to the agent, byte for byte."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from functools import cached_property

import httpx

from contextrender_bridge.asgi import Headers, Message, Send
from contextrender_bridge.base.contents import decode_body
from contextrender_bridge.base.provider_reply import ProviderReply
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.usage_reading import read_error_code, read_usage
from contextrender_bridge.proxy.connections import Connections, Content
from contextrender_bridge.proxy.reply_start import failure_code
from contextrender_bridge.proxy.routing import response_headers

MAX_REPLY_BYTES = 32 * 2**20
"""The largest reply, in bytes, that is kept to read its usage."""
BROKEN_OFF = "broken_off"
"""The error code of a reply whose connection failed before its end."""
REFUSED = 400
"""The status of a request that a provider refuses, such as one with a changed history."""

log = logging.getLogger("contextrender")


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
        return failure_code(self.plain_body, is_stream="event-stream" in self.content_type)

    @property
    def is_accepted(self) -> bool:
        """True if the provider accepted the request."""
        return 200 <= self._status < 300

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
    async with http.answer(method, url, headers, content) as response:
        await relay(response, send, added)


async def relay(
    response: httpx.Response,
    send: Send,
    added: Headers,
    body: AsyncIterator[bytes] | None = None,
) -> None:
    """Forward a provider's reply to the agent, with our own headers `added`.

    If a part of the reply's body was read before, `body` must yield all of the body's bytes. If the
    connection fails, log it and return without the end of the reply, so that the agent gets an
    incomplete reply, too.
    """
    await start(response.status_code, response_headers(response.headers.raw), send, added)
    try:
        async for chunk in response.aiter_raw() if body is None else body:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except httpx.HTTPError as error:
        log.warning("the provider's reply broke off (%s)", type(error).__name__)
        return
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def start(status: int, headers: Headers, send: Send, added: Headers) -> None:
    """Forward a reply's status and headers, with our own headers `added`."""
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *added]})
