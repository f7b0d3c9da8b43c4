"""Limits on request bodies: their size, announced or not, and how long they may take."""

import asyncio
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contextrender_bridge.errors import InvalidRequest
from contextrender_bridge.server.replies import error_response

SILENCE_SECONDS = 30.0
"""How long a body may pause."""
LOGIN_BYTES = 4096
"""Of a body that is read before anybody's token is."""


class BodyLimit:
    """ASGI middleware: 413 before reading an announced body, or while reading a streamed one.

    408 for one that comes too slowly. `routes` have limits of their own.
    """

    def __init__(
        self,
        app: ASGIApp,
        max_bytes: int,
        routes: Mapping[str, int] | None = None,
        silence: float = SILENCE_SECONDS,
        whole: float = 300.0,
    ) -> None:
        """Guards every route of `app`."""
        self._app = app
        self._max_bytes = max_bytes
        self._routes = routes or {}
        self._silence = silence
        self._whole = whole

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, counting."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._routes.get(scope["path"], self._max_bytes)
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > most:
            await error_response(too_large(most))(scope, receive, send)
            return
        counted = _Counted(receive, most, self._silence, self._whole)
        await self._app(scope, counted, send)


class _Counted:
    """A request's `receive`, under a limit of size and of time until the body is whole."""

    def __init__(self, receive: Receive, most: int, silence: float, whole: float) -> None:
        self._receive = receive
        self._most = most
        self._silence = silence
        self._deadline = asyncio.get_running_loop().time() + whole
        self._received = 0
        self._whole = False

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()
        message = await self._in_time()
        self._received += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._received > self._most:
            raise too_large(self._most)
        return message

    async def _in_time(self) -> Message:
        left = self._deadline - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(min(self._silence, max(left, 0))):
                return await self._receive()
        except TimeoutError:
            sentence = "The body did not arrive in time."
            raise InvalidRequest(sentence, code="too_slow", status=408) from None


def too_large(most: int) -> InvalidRequest:
    """The refusal of a body above `most` bytes."""
    size = f"{most / 2**20:g} MB" if most >= 2**20 else f"{most} bytes"
    return InvalidRequest(f"A body may have up to {size}.", code="body_too_large", status=413)
