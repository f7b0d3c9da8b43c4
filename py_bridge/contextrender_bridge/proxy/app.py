"""The proxy as an ASGI application, in front of a service or as a part of one, where it reaches the
walkers in process, for the token's user.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.errors import ContextRenderError
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.client.connection import Answer, Exchange, Step
from contextrender_bridge.client.core import Core
from contextrender_bridge.proxy.compact import compact
from contextrender_bridge.proxy.compress import Compression, Refused
from contextrender_bridge.proxy.connections import Connections, Unavailable
from contextrender_bridge.proxy.controls import Controls, InvalidControl
from contextrender_bridge.proxy.history_rendering import Histories
from contextrender_bridge.proxy.model_calls import ModelCalls
from contextrender_bridge.proxy.peers import is_same_user
from contextrender_bridge.proxy.routing import (
    COMPACT,
    COMPRESS,
    RETRIEVE,
    Request,
    Target,
    bearer,
    first,
    json_body,
)
from contextrender_bridge.proxy.upstream import (
    ClientDisconnected,
    Receive,
    Send,
    pass_on,
    read_body,
    send_error,
    send_unavailable,
    send_whole,
    while_connected,
)

Scope = Any
URL = "http://contextrender.mounted"
Walk = Callable[[str, Mapping[str, Any], Any], Awaitable[Answer]]
_USER: ContextVar[Any] = ContextVar("user")
"""The user whose request it is: whatever is done for it is done for that one."""
PATHS = ("/v1/{path:path}", "/s/{session}/{path:path}")


class Proxy:
    """Forwards every request to a provider; histories of model calls are made to fit first."""

    def __init__(
        self,
        settings: Settings,
        client: AsyncContextRender,
        *,
        own_token: bool = True,
        secret: str = "",
        gated: bool = False,
        recalls: bool = False,
    ) -> None:
        """`client` reaches the service; its token also serves this user's programs (`own_token`),
        and callers with the link's `secret`; `gated`: whoever comes has shown a secret before.

        `recalls`: the agent has the recall tool, though its requests need not show it.
        """
        self.settings = settings
        self.http = Connections(settings.provider_timeout)
        self.histories = Histories(client, settings, recalls=recalls)
        self._calls = ModelCalls(self.http, self.histories, settings)
        self._compression = Compression(self.histories)
        self._own_token = own_token
        self._secret = secret
        self._gated = gated

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        try:
            await self._answer(scope, receive, send)
        except ClientDisconnected:
            return
        except Unavailable as failure:
            await send_unavailable(send, failure)

    async def close(self) -> None:
        """Gives back all connections."""
        await self.histories.settle()
        await self.http.close()
        await self.histories.client.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request.of(scope, self.settings)
        if not request.url:
            await send_error(send, 400, "invalid_path", "A path has no `..`, `//` or `#`.", [])
            return
        trusted = self._trusts(scope, request.target)
        if request.compresses:
            await self._compress(request, receive, send, trusted=trusted)
            return
        if not request.dialect:
            await self._forward(request, receive, send)
            return
        body = await read_body(receive)
        work = self._calls.answer(request, body, send, trusted=trusted)
        await while_connected(receive, work)

    def _trusts(self, scope: Scope, target: Target) -> bool:
        """Whether the proxy's own token is for this caller, too."""
        if not self._own_token:
            return False
        if self._secret and target.secret:
            return secrets.compare_digest(target.secret.encode(), self._secret.encode())
        return self._gated or is_same_user(scope)

    async def _compress(
        self, request: Request, receive: Receive, send: Send, *, trusted: bool
    ) -> None:
        raw, target, headers = await read_body(receive), request.target, request.headers
        try:
            asked = Controls.of(headers, self.settings, trusted=trusted)
            if not asked.identified:
                asked = replace(asked, token=bearer(headers))
            if target.path in (COMPRESS, COMPACT):
                if request.method != "POST":
                    raise Refused(405, "wrong_method", "Use POST here.")
                body = json_body(headers, raw)
                if body is None:
                    raise Refused(400, "invalid_json", "The body must be a JSON object.")
                if target.path == COMPACT:
                    made = await compact(self.histories.client, target.session, body, asked)
                else:
                    made = await self._compression.compress(target.session, headers, body, asked)
            else:
                made = await self._compression.retrieve(target.path[len(RETRIEVE) :], asked)
        except InvalidControl as invalid:
            sentence = f"The header x-contextrender-{invalid.args[0]} has no such value."
            await send_error(send, 422, "invalid_request", sentence, [])
        except Refused as refused:
            status, code, sentence = refused.args
            await send_error(send, status, code, sentence, [])
        else:
            await send_whole(send, 200, [], wire.dumps(made))

    async def _forward(self, request: Request, receive: Receive, send: Send) -> None:
        """Passes on what is no model call, its body as it comes."""
        sent = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnected
                yield message.get("body", b"")
                if not message.get("more_body"):
                    sent.set()
                    return

        async def left() -> Any:
            await sent.wait()
            return await receive()

        method, url, onward = request.method, request.url, [*request.onward]
        length = first(request.headers, b"content-length")
        if length:
            onward.append((b"content-length", length.encode()))
        has_body = length not in ("", "0") or first(request.headers, b"transfer-encoding")
        if has_body:
            work = pass_on(self.http, method, url, onward, body(), send, [])
            await while_connected(left, work)
        else:
            await read_body(receive)
            await while_connected(receive, pass_on(self.http, method, url, onward, b"", send, []))


class MountedProxy:
    """Serves those who bring a token of this service: it is no relay for strangers."""

    def __init__(
        self,
        settings: Settings,
        user_of: Callable[[str], Awaitable[Any]],
        walk: Walk,
    ) -> None:
        """`user_of` gives a good token's user, who has a `name`, or raises a ContextRenderError;
        `walk` answers a walker's name, its fields and a user.
        """
        self._user_of = user_of
        self._proxy = Proxy(settings, _Inside(walk), own_token=False)

    def tell_failures(self, heard: Callable[[str], None]) -> None:
        """Has `heard` told why, whenever a history goes through unchanged."""
        self._proxy.histories.failures.heard = heard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        headers = scope["headers"]
        token = first(headers, b"x-contextrender-token")
        if not token and Target.of(scope["path"]).compresses:
            token = bearer(headers) or ""
        try:
            user = await self._user_of(token)
        except ContextRenderError as refused:
            sentence = refused.message
            if refused.status == 401:
                sentence = "Send a token of this service: `x-contextrender-token: TOKEN`."
            wait = refused.details.get("retry_after")
            more = [(b"retry-after", str(wait).encode())] if wait else []
            await send_error(send, refused.status, refused.code, sentence, more)
            return
        _USER.set(user)
        await self._proxy(scope, receive, send)

    async def close(self) -> None:
        """Gives back the connections to providers."""
        await self._proxy.close()


class _Inside(AsyncContextRender):
    """Asks the walkers of this process, for the user whose request it is, without HTTP or JSON."""

    def __init__(self, walk: Walk) -> None:
        self._core = Core(URL, "none", retries=0)
        self.failures = self._core.failures
        self._walk = walk

    async def close(self) -> None:
        """Has no connections."""

    async def _take(self, step: Step) -> Answer:
        assert isinstance(step, Exchange), "nothing is tried again"
        return await self._walk(step.path.rpartition("/")[2], step.fields, _USER.get())
