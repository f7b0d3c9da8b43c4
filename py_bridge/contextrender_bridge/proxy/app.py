"""The proxy as an ASGI application: a part of another, or on its own in front of a service."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import replace
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.client.credentials import load_credentials
from contextrender_bridge.guarding import App, OwnHosts
from contextrender_bridge.listening import STATUS_PATH
from contextrender_bridge.proxy.compress import Compression, Refused
from contextrender_bridge.proxy.connections import Connections
from contextrender_bridge.proxy.controls import Controls, InvalidControl
from contextrender_bridge.proxy.histories import Histories
from contextrender_bridge.proxy.model_calls import Asked, ModelCalls
from contextrender_bridge.proxy.peers import is_same_user
from contextrender_bridge.proxy.routing import (
    COMPRESS,
    DIALECT_OF_PATH,
    RETRIEVE,
    Headers,
    Target,
    bearer,
    first,
    is_compression,
    json_body,
    request_headers,
    upstream_url,
)
from contextrender_bridge.proxy.upstream import (
    Gone,
    Receive,
    Send,
    Unavailable,
    pass_on,
    read_body,
    send_error,
    send_unavailable,
    send_whole,
    while_connected,
)

Scope = Any


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
        except Gone:
            return
        except Unavailable as failure:
            await send_unavailable(send, failure)

    async def close(self) -> None:
        """Gives back all connections."""
        await self.histories.settle()
        await self.http.close()
        await self.histories.client.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = scope["headers"]
        raw = scope.get("raw_path") or scope["path"].encode()
        target = Target.of(raw.decode("latin-1"))
        if not target.is_below or b"#" in scope["query_string"]:
            sentence = "A path has no `..`, `//` or `#`."
            await send_error(send, 400, "invalid_path", sentence, [])
            return
        trusted = self._trusts(scope, target)
        if is_compression(target.path):
            await self._compress(target, scope["method"], headers, receive, send, trusted=trusted)
            return
        dialect = DIALECT_OF_PATH.get(target.path, "") if scope["method"] == "POST" else ""
        url = upstream_url(self.settings, target, headers, scope["query_string"])
        if not dialect:
            await self._forward(scope["method"], url, headers, receive, send)
            return
        body = await read_body(receive)
        asked = Asked(target, dialect, url, headers, body, trusted=trusted)
        await while_connected(receive, self._calls.answer(asked, send))

    def _trusts(self, scope: Scope, target: Target) -> bool:
        """Whether the proxy's own token is for this caller, too."""
        if not self._own_token:
            return False
        if self._secret and target.secret:
            return secrets.compare_digest(target.secret.encode(), self._secret.encode())
        return self._gated or is_same_user(scope)

    async def _compress(
        self,
        target: Target,
        method: str,
        headers: Headers,
        receive: Receive,
        send: Send,
        *,
        trusted: bool,
    ) -> None:
        raw = await read_body(receive)
        try:
            asked = Controls.of(headers, self.settings, trusted=trusted)
            if not asked.identified:
                asked = replace(asked, token=bearer(headers))
            if target.path == COMPRESS:
                if method != "POST":
                    raise Refused(405, "wrong_method", "Use POST here.")
                body = json_body(headers, raw)
                if body is None:
                    raise Refused(400, "invalid_json", "The body must be a JSON object.")
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

    async def _forward(
        self, method: str, url: str, headers: Headers, receive: Receive, send: Send
    ) -> None:
        """Passes on what is no model call, its body as it comes."""
        sent = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                yield message.get("body", b"")
                if not message.get("more_body"):
                    sent.set()
                    return

        async def left() -> Any:
            await sent.wait()
            return await receive()

        onward = request_headers(headers)
        length = first(headers, b"content-length")
        if length:
            onward.append((b"content-length", length.encode()))
        has_body = length not in ("", "0") or first(headers, b"transfer-encoding")
        if has_body:
            work = pass_on(self.http, method, url, onward, body(), send, [])
            await while_connected(left, work)
        else:
            await read_body(receive)
            await while_connected(receive, pass_on(self.http, method, url, onward, b"", send, []))


class Standalone:
    """The proxy and its status page."""

    def __init__(self, proxy: Proxy) -> None:
        """Closes the proxy when the server ends."""
        self.proxy = proxy

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answers one request, or takes part in the server's start and end."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["path"] == STATUS_PATH:
            status = {"status": "ok", "fail_open": self.proxy.histories.failures.counts()}
            await send_whole(send, 200, [], wire.dumps(status))
        else:
            await self.proxy(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            event = (await receive())["type"]
            if event == "lifespan.shutdown":
                await self.proxy.close()
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return


def standalone_app(settings: Settings, *, own_token: bool = True, secret: str = "") -> App:
    """The proxy over the service that the environment or the local file names, for its own hosts.

    `own_token`: the service's token also serves this user's programs, and links with the `secret`.
    Raises NoCredentials.
    """
    load_credentials()
    proxy = Proxy(settings, AsyncContextRender(), own_token=own_token, secret=secret)
    return OwnHosts(Standalone(proxy))
