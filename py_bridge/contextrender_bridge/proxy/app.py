"""The proxy as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx

from contextrender_bridge import wire
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.client.fitting import Fitted
from contextrender_bridge.proxy.compress import Compression, Refused
from contextrender_bridge.proxy.controls import Controls, InvalidControl
from contextrender_bridge.proxy.headers import Headers, first, request_headers
from contextrender_bridge.proxy.histories import Histories
from contextrender_bridge.proxy.other_providers import ORIGIN, is_other
from contextrender_bridge.proxy.recall.driver import FORMATS, Recalling
from contextrender_bridge.proxy.routing import (
    COMPRESS,
    DIALECT_OF_PATH,
    RETRIEVE,
    Target,
    bearer,
    family,
    is_compression,
    json_body,
    own_header,
    report,
    upstream_url,
)
from contextrender_bridge.proxy.upstream import (
    Gone,
    Receive,
    Send,
    Unavailable,
    answer,
    new_connections,
    read_body,
    relay,
    send_error,
    send_whole,
    while_connected,
)
from contextrender_bridge.settings import Settings

Scope = Any

REFUSED = 400
"""What providers say to a request that they do not take, such as one whose history was changed."""


class Proxy:
    """Forwards every request to a provider; histories of model calls are made to fit first."""

    def __init__(
        self,
        settings: Settings,
        client: AsyncContextRender,
        *,
        own_token: bool = True,
        others: bool = True,
        connections: httpx.AsyncClient | None = None,
    ) -> None:
        """`client` reaches the service; `own_token`: also for callers without a token.

        `others`: models of other providers are reached too, with this process's keys.
        """
        self.settings = settings
        self.histories = Histories(client, settings.deadline, own_token=own_token)
        self.http = connections or new_connections()
        self._compression = Compression(self.histories)
        self._own_token = own_token
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        try:
            await self._answer(scope, receive, send)
        except Gone:
            return
        except Unavailable as failure:
            sentence = f"The provider gave no answer ({failure.args[0]})."
            await send_error(send, 502, "upstream_unavailable", sentence, [])

    async def close(self) -> None:
        """Gives back all connections."""
        await self.histories.settle()
        await self.http.aclose()
        await self.histories.client.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = scope["headers"]
        raw = scope.get("raw_path") or scope["path"].encode()
        target = Target.of(raw.decode("latin-1"))
        if is_compression(target.path):
            await self._compress(target, scope["method"], headers, receive, send)
            return
        dialect = DIALECT_OF_PATH.get(target.path, "") if scope["method"] == "POST" else ""
        url = upstream_url(
            self.settings, target, dialect or family(target), headers, scope["query_string"]
        )
        if not dialect:
            await self._forward(scope["method"], url, headers, receive, send)
            return
        body = await read_body(receive)
        await while_connected(receive, self._call(target, dialect, url, headers, body, send))

    async def _compress(
        self, target: Target, method: str, headers: Headers, receive: Receive, send: Send
    ) -> None:
        raw = await read_body(receive)
        try:
            asked = Controls.of(headers, self.settings)
            if not self._own_token and asked.token is None:
                asked = replace(asked, token=bearer(headers))
            if target.path == COMPRESS:
                if method != "POST":
                    raise Refused(405, "wrong_method", "Use POST here.")
                body = json_body(headers, raw)
                if body is None:
                    raise Refused(400, "invalid_json", "The body must be a JSON object.")
                made = await self._compression.compress(target.session, headers, body, asked)
            else:
                made = await self._compression.retrieve(target.path[len(RETRIEVE) :], asked.token)
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
            await while_connected(left, self._pass(method, url, onward, body(), send, []))
        else:
            await read_body(receive)
            await while_connected(receive, self._pass(method, url, onward, b"", send, []))

    async def _call(
        self, target: Target, dialect: str, url: str, headers: Headers, raw: bytes, send: Send
    ) -> None:
        onward = request_headers(headers)
        try:
            asked = Controls.of(headers, self.settings)
        except InvalidControl as invalid:
            reason = f"invalid_{invalid.args[0]}"
            self.histories.failures.add(reason)
            await self._pass("POST", url, onward, raw, send, [own_header("fail-open", reason)])
            return
        body = json_body(headers, raw) if asked.mode != "bypass" else None
        if body is None:
            await self._pass("POST", url, onward, raw, send, [])
            return
        if dialect == "chat" and self._others and is_other(body):
            url, onward = f"{ORIGIN}{target.path}", []
        call = await self.histories.fit(target.session, headers, body, dialect, asked)
        form = FORMATS[dialect]
        if asked.recall and asked.mode == "render" and call.fit.reply and form.offers(body):
            recalling = Recalling(self.http, self.histories.client, call, form, send)
            ours = report(call.session, call.fit, asked.mode)
            await recalling.run(url, onward, dict(call.fit.body), ours)
            return
        if not call.fit.changed or asked.mode != "render":
            async with answer(self.http, "POST", url, onward, raw) as response:
                seconds = self.settings.deadline if asked.mode == "observe" else 0.0
                told = await call.told(seconds)
                await relay(response, send, report(call.session, told, asked.mode))
            return
        left = wire.dumps(call.fit.body)
        async with answer(self.http, "POST", url, onward, left) as response:
            if response.status_code != REFUSED:
                await relay(response, send, report(call.session, call.fit, asked.mode))
                return
        self.histories.failures.add("refused")
        whole = Fitted(body, failure="refused")
        await self._pass("POST", url, onward, raw, send, report(call.session, whole, asked.mode))

    async def _pass(
        self,
        method: str,
        url: str,
        headers: Headers,
        content: bytes | AsyncIterator[bytes],
        send: Send,
        ours: Headers,
    ) -> None:
        async with answer(self.http, method, url, headers, content) as response:
            await relay(response, send, ours)
