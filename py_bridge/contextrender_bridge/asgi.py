"""Types and functions of our ASGI applications: bodies, errors, startup and shutdown."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.errors import ContextRenderError
from contextrender_bridge.base.wire import Json

Headers = list[tuple[bytes, bytes]]
Message = MutableMapping[str, Any]
Scope = Any
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass
class RequestInfo:
    """The current request of a service: its id and route, and what is found out about it later.

    `server_address` is the address of this machine at which it arrived. `user` and `policy` are
    empty until they are known, and `status` is 0 until the reply begins.
    """

    id: str
    route: str
    server_address: str = ""
    user: str = ""
    policy: str = ""
    status: int = 0


REQUEST: ContextVar[RequestInfo | None] = ContextVar("request", default=None)


class ClientDisconnected(Exception):
    """The client closed its connection."""


def error_fields(error: ContextRenderError) -> Json:
    """Return the body of the reply for an error.

    It has `type` twice, because the SDKs of model providers read it in both places.
    """
    fields = {**error.details, "type": error.code, "code": error.code, "message": error.message}
    return {"type": "error", "error": fields}


async def send_error(send: Send, error: ContextRenderError) -> None:
    """Send the reply for an error.

    An error without a status (0) means that the service did not answer: send 503.
    """
    headers: Headers = [(b"www-authenticate", b"Bearer")] if error.status == 401 else []
    if "retry_after" in error.details:
        headers.append((b"retry-after", str(error.details["retry_after"]).encode()))
    await send_json(send, wire.dumps(error_fields(error)), error.status or 503, headers)


async def send_json(
    send: Send, body: bytes, status: int = 200, headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    """Send a reply whose body is JSON already."""
    length = str(len(body)).encode()
    all_headers = [(b"content-type", b"application/json"), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def read_body(receive: Receive) -> bytes:
    """Return a request's whole body.

    Raise ClientDisconnected if the client closes the connection before the body's end.
    """
    chunks = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        chunks.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(chunks)


async def while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do `work`. If the client disconnects meanwhile, cancel `work` and raise ClientDisconnected.

    The request's body must have been read, because the messages from `receive` are dropped.
    """
    # Run both until one ends.
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnected
        task.result()  # raises its error
    finally:
        # Cancel the other one, and wait until it has ended.
        for pending in (task, watcher):
            if not pending.done():
                pending.cancel()
                with suppress(asyncio.CancelledError):
                    await pending


async def answer_lifespan(
    receive: Receive, send: Send, close: Callable[[], Awaitable[None]]
) -> None:
    """Answer a server's startup and shutdown events. Call `close` at shutdown."""
    while True:
        event = (await receive())["type"]
        if event == "lifespan.shutdown":
            await close()
        await send({"type": f"{event}.complete"})
        if event == "lifespan.shutdown":
            return


async def _wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client disconnects. Drop all other messages."""
    while (await receive())["type"] != "http.disconnect":
        pass
