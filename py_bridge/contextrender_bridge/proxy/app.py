"""The proxy as an ASGI application: on its own, behind `wrap`, or mounted in a service."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from contextrender_bridge.asgi import (
    ClientDisconnected,
    Receive,
    Scope,
    Send,
    answer_lifespan,
    read_body,
    send_json,
    while_connected,
)
from contextrender_bridge.base import wire
from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.listening import STATUS_PATH
from contextrender_bridge.proxy.bodies import LARGE_CHARACTERS
from contextrender_bridge.proxy.compact import compact
from contextrender_bridge.proxy.compress import Compression
from contextrender_bridge.proxy.histories import SETTLE_SECONDS, Histories
from contextrender_bridge.proxy.model_calls import ModelCalls
from contextrender_bridge.proxy.peers import is_same_user
from contextrender_bridge.proxy.provider import Connections, pass_on
from contextrender_bridge.proxy.request import (
    COMPACT,
    COMPRESS,
    RETRIEVE,
    Controls,
    InvalidControl,
    Request,
    bearer,
)
from contextrender_bridge.proxy.usage_reporting import UsageNotes
from contextrender_bridge.request_guards import BodyLimits

Trust = Callable[[Scope, Request], Awaitable[bool]]
"""A rule that returns whether a request without a token may use the proxy's own token."""


class Proxy:
    """The proxy: it renders the histories of model calls, and forwards every request."""

    def __init__(
        self,
        settings: Settings,
        client: AsyncContextRender,
        trust: Trust,
        *,
        bodies: BodyLimits | None = None,
        recalls: bool = False,
    ) -> None:
        """Reach the service through `client`.

        `trust` decides which requests may use the proxy's own token. `bodies` limits the bodies
        that are read into memory; None sets no limit. Forwarded bodies are not read, so they are
        never limited. `recalls` is true if the agent has the recall tool although its requests do
        not declare it.
        """
        self.settings = settings
        self.http = Connections(settings.provider_timeout)
        self.histories = Histories(client, settings, recalls=recalls)
        self._notes = UsageNotes(client)
        self._calls = ModelCalls(self.http, self.histories, self._notes, settings)
        self._compression = Compression(self.histories, self._notes)
        self._trust = trust
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an ASGI request, or the server's start and shutdown events.

        Raise ContextRenderError if the request cannot be answered, ClientDisconnected if the agent
        has disconnected.
        """
        if scope["type"] == "lifespan":
            await answer_lifespan(receive, send, self.close)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["path"] == STATUS_PATH:
            status = {"status": "ok", "fail_open": self.histories.failures.counts()}
            await send_json(send, wire.dumps(status))
        else:
            await self._answer(scope, receive, send)

    async def close(self) -> None:
        """Wait some seconds for pending calls to be recorded, then close all connections."""
        await self._notes.settle(SETTLE_SECONDS)
        await self.histories.settle()
        await self.http.close()
        await self.histories.client.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one of the proxy's own endpoints or a model call, or forward any other request.

        Raise InvalidRequest if the path is not allowed. Stop if the agent closes the connection.
        """
        request = Request.of(scope, self.settings)
        is_trusted = await self._trust(scope, request)
        if not request.url:
            sentence = "A path has no `..`, `//` or `#`."
            raise InvalidRequest(sentence, code="invalid_path", status=400)
        if not (request.is_own_endpoint or request.dialect):
            await self._forward(request, receive, send)
            return
        # Read the body into memory, within the limits if there are any.
        reading = self._bodies.reading(scope, receive) if self._bodies else nullcontext(receive)
        with reading as limited_receive:
            body = await read_body(limited_receive)
            try:
                if request.is_own_endpoint:
                    await self._answer_own_endpoint(request, body, send, is_trusted=is_trusted)
                else:
                    work = self._calls.answer(request, body, send, is_trusted=is_trusted)
                    await while_connected(receive, work)
            finally:
                # A large request leaves a large history in memory: release it after a while.
                if len(body) > LARGE_CHARACTERS:
                    self._calls.memory.start()

    async def _answer_own_endpoint(
        self, request: Request, raw: bytes, send: Send, *, is_trusted: bool
    ) -> None:
        """Answer a request to `compress`, `compact` or `retrieve`, whose body is `raw`.

        The user's token comes from our own header. Without it, a trusted request uses the proxy's
        token, and any other request its bearer token. Raise ContextRenderError if the request
        cannot be answered.
        """
        target = request.target
        try:
            controls = Controls.of(request.values, self.settings, is_trusted=is_trusted)
        except InvalidControl as invalid:
            name = f"x-contextrender-{invalid.args[0]}"
            raise InvalidRequest(f"The header {name} has no such value.") from None
        # Gateways may send our token as the bearer token.
        if not controls.has_user:
            controls = replace(controls, token=bearer(request.values))
        # Answer by the endpoint in the path.
        if target.path == COMPRESS:
            body = _posted_fields(request, raw)
            reply = await self._compression.compress(request, body, controls)
        elif target.path == COMPACT:
            body = _posted_fields(request, raw)
            reply = await compact(self.histories.client, target.session, body, controls)
        else:
            reply = await self._compression.retrieve(target.path[len(RETRIEVE) :], controls)
        await send_json(send, wire.dumps(reply))

    async def _forward(self, request: Request, receive: Receive, send: Send) -> None:
        """Forward a request that is no model call, and its body in pieces as they arrive.

        Stop if the agent closes the connection. `body_sent` is set when the body is forwarded.
        """
        body_sent = asyncio.Event()

        async def receive_after_body() -> Any:
            # It waits for the agent's disconnection. But until the body is forwarded, only
            # `_body_pieces` may receive, so that it gets every piece.
            await body_sent.wait()
            return await receive()

        method, url, onward = request.method, request.url, [*request.onward]
        length = request.values.get("content-length", "")
        if length:
            onward.append((b"content-length", length.encode()))
        has_body = length not in ("", "0") or request.values.get("transfer-encoding")
        if has_body:
            body = _body_pieces(receive, body_sent)
            work = pass_on(self.http, method, url, onward, body, send, [])
            await while_connected(receive_after_body, work)
        else:
            await read_body(receive)
            await while_connected(receive, pass_on(self.http, method, url, onward, b"", send, []))


async def _body_pieces(receive: Receive, body_sent: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield the pieces of a request's body. Set `body_sent` after the last piece.

    Raise ClientDisconnected if the client closes the connection before the last piece.
    """
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        yield message.get("body", b"")
        if not message.get("more_body"):
            body_sent.set()
            return


def _posted_fields(request: Request, raw: bytes) -> dict[str, Any]:
    """Return the JSON object in a POST request. Raise InvalidRequest for any other request."""
    if request.method != "POST":
        raise InvalidRequest("Use POST here.", code="wrong_method", status=405)
    try:
        body = wire.loads(raw) if request.plain else None
    except ValueError:
        body = None
    if not isinstance(body, dict):
        sentence = "The body must be a JSON object."
        raise InvalidRequest(sentence, code="invalid_json", status=400)
    return body


def trust_own_programs(secret: str = "") -> Trust:
    """Return a rule that lets this user's programs use the proxy's token.

    A request whose path has a secret (`/k/SECRET/v1`) may use the token if it equals `secret`. A
    request without a secret may use it if its process belongs to this user. If `secret` is empty,
    only the process counts.
    """

    async def trust(scope: Scope, request: Request) -> bool:
        if secret and request.target.secret:
            return secrets.compare_digest(request.target.secret.encode(), secret.encode())
        return is_same_user(scope)

    return trust


async def trust_nobody(_: Scope, __: Request) -> bool:
    """Let no request use the proxy's own token."""
    return False


async def trust_everybody(_: Scope, __: Request) -> bool:
    """Let every request use the proxy's own token, because a caller has checked a secret."""
    return True
