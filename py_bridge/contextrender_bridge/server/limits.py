"""A limit on request bodies, whether their length is announced or not."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contextrender_bridge.errors import InvalidRequest
from contextrender_bridge.server.replies import error_response


class BodyLimit:
    """ASGI middleware: 413 before reading an announced body, or while reading a streamed one."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        """Guards every route of `app`."""
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, counting."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self._max_bytes:
            await error_response(self._too_large())(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_bytes:
                raise self._too_large()
            return message

        await self._app(scope, counted, send)

    def _too_large(self) -> InvalidRequest:
        megabytes = self._max_bytes / 2**20
        sentence = f"A body may have up to {megabytes:g} MB."
        return InvalidRequest(sentence, code="body_too_large", status=413)
