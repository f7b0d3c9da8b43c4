"""The provider's side: requests go out as they came, replies come back byte for byte."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import httpx

from contextrender_bridge.asgi import Headers, Message, Send
from contextrender_bridge.base.contents import decoded
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.usage_reading import NAMES, read_usage
from contextrender_bridge.proxy.connections import Connections, Content
from contextrender_bridge.proxy.routing import response_headers

LARGEST = 32 * 2**20
"""Of a reply that is kept to look for its usage."""
REFUSED = 400
"""What providers say to a request that they do not take, such as one whose history was changed."""

log = logging.getLogger("contextrender")


class UsageCapture:
    """Sends a reply on, and keeps it until it is known what it says of the call's usage."""

    def __init__(self, send: Send) -> None:
        """Nothing has been sent."""
        self._send = send
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        """One message of the reply."""
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], dict(message["headers"])
        elif len(self._body) < LARGEST:
            self._body += message.get("body", b"")
        await self._send(message)

    @property
    def is_taken(self) -> bool:
        """Whether the provider took the request."""
        return 200 <= self._status < 300

    def usage(self) -> Usage | None:
        """What the reply says; None where it says nothing, cannot be read, or is a refusal."""
        if not self.is_taken or not NAMES.search(body := self._plain()):
            return None
        return read_usage(self._headers.get(b"content-type", b"").decode("latin-1"), body)

    def _plain(self) -> bytes:
        """Return the body; empty if its coding cannot be read."""
        codings = self._headers.get(b"content-encoding", b"").decode("latin-1")
        return decoded(codings, bytes(self._body), LARGEST)


async def pass_on(
    http: Connections,
    method: str,
    url: str,
    headers: Headers,
    content: Content,
    send: Send,
    ours: Headers,
) -> None:
    """Sends a request to the provider, and its reply back, as they came. Raises Unavailable."""
    async with http.answer(method, url, headers, content) as response:
        await relay(response, send, ours)


async def relay(
    response: httpx.Response,
    send: Send,
    ours: Headers,
    body: AsyncIterator[bytes] | None = None,
) -> None:
    """Send a reply on as it comes; `body` are its bytes if some were read already.

    A reply that breaks off is broken off, not ended.
    """
    await start(response.status_code, response_headers(response.headers.raw), send, ours)
    try:
        async for chunk in response.aiter_raw() if body is None else body:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except httpx.HTTPError as error:
        log.warning("the provider's reply broke off (%s)", type(error).__name__)
        return
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def start(status: int, headers: Headers, send: Send, ours: Headers) -> None:
    """Sends a reply's status and headers on, with our own."""
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *ours]})
