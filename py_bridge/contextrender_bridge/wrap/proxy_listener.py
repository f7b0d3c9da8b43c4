"""What listens for a wrapped agent: its doors, each with the proxy to its provider behind it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from contextrender_bridge.asgi import (
    App,
    Headers,
    Receive,
    Scope,
    Send,
    answer_lifespan,
    read_body,
)
from contextrender_bridge.base.contents import decoded
from contextrender_bridge.base.errors import InvalidRequest, NotFound
from contextrender_bridge.body_limits import BodyLimits, too_large
from contextrender_bridge.proxy.app import Proxy
from contextrender_bridge.proxy.connections import Unavailable
from contextrender_bridge.proxy.routing import first, without
from contextrender_bridge.wrap.provider_routes import LINK, PREFIX, ProviderRoutes
from contextrender_bridge.wrap.run_totals import Listening, Tally

MODEL_CALLS = ("/chat/completions", "/responses", "/messages")
MODE = b"x-contextrender-mode"
PROJECT = b"openai-project"
"""Codex takes this header from a variable, also for its own provider; the secret comes first."""


class ProxyListener:
    """Lets in who knows the secret, and listens to what the provider bills."""

    def __init__(
        self,
        doors: ProviderRoutes,
        proxies: Mapping[str, Proxy],
        tally: Tally,
        passes: Callable[[bytes], bool],
        bodies: BodyLimits,
        mcp: App | None = None,
    ) -> None:
        """`passes` says of a model call's body that it goes through unread; `mcp` recalls."""
        self._doors = doors
        self._proxies = proxies
        self._tally = tally
        self._passes = passes
        self._bodies = bodies
        self._mcp = mcp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or take part in the server's start and end."""
        if scope["type"] == "lifespan" and self._mcp:
            await self._mcp(scope, receive, self._closing(send))
        elif scope["type"] == "lifespan":
            await answer_lifespan(receive, send, self._close)
        elif scope["type"] == "http":
            await self._admit(scope, receive, send)

    def _closing(self, send: Send) -> Send:
        """Gives back the proxies' connections before the server's end is told."""

        async def told(message: Any) -> None:
            if message["type"] == "lifespan.shutdown.complete":
                await self._close()
            await send(message)

        return told

    async def _close(self) -> None:
        for proxy in self._proxies.values():
            await proxy.close()

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope["path"].startswith(PREFIX):
            raise NotFound("Nothing is here.")
        prefix, path = PREFIX[:-1], scope["path"].removeprefix(PREFIX)
        if path.partition("/")[0] == "mcp" and self._mcp is not None:
            # It asks for a token of its own.
            await self._mcp({**scope, **_below(scope, prefix)}, receive, send)
            return
        is_known, headers = self._read_link(scope["headers"])
        if not is_known:
            secret, _, path = path.partition("/")
            is_known, prefix = self._is_secret(secret), f"{PREFIX}{secret}"
        if not is_known:
            raise NotFound("Nothing is here.")
        door, slash, path = path.partition("/")
        if first(headers, b"upgrade").lower() == "websocket":
            # Codex then uses HTTP at once; any other refusal it tries again for seconds.
            raise InvalidRequest("Use HTTP here.", code="http_only", status=426)
        if door not in self._proxies:
            raise NotFound(f"There is no {slash}{path} here.")
        inner = {**scope, "headers": headers, **_below(scope, f"{prefix}/{door}")}
        await self._pass(self._proxies[door], inner, receive, send)

    def _is_secret(self, text: str) -> bool:
        return secrets.compare_digest(text.encode(), self._doors.secret.encode())

    def _read_link(self, headers: Headers) -> tuple[bool, Headers]:
        """Return whether a header brings the secret, and the headers without it."""
        if self._is_secret(first(headers, LINK.encode())):
            return True, without(headers, LINK.encode())
        secret, _, project = first(headers, PROJECT).partition(" ")
        if not self._is_secret(secret):
            return False, headers
        own = [(PROJECT, project.encode("latin-1"))] if project else []
        return True, [*without(headers, PROJECT), *own]

    async def _pass(self, proxy: Proxy, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST" or not scope["path"].endswith(MODEL_CALLS):
            await proxy(scope, receive, send)
            return
        with self._bodies.reading(scope, receive) as limited:
            await self._pass_model_call(proxy, scope, limited, send)

    async def _pass_model_call(
        self, proxy: Proxy, scope: Scope, receive: Receive, send: Send
    ) -> None:
        body = await read_body(receive)
        headers, body = _decoded(scope["headers"], body, self._bodies.max_bytes)
        # What is compressed could not be read on its way back.
        headers = [*without(headers, b"accept-encoding"), (b"accept-encoding", b"identity")]
        if self._passes(body):
            headers = [*without(headers, MODE), (MODE, b"bypass")]
        listening = Listening(self._tally, headers, send)
        try:
            await proxy({**scope, "headers": headers}, _again(body, receive), listening)
        except Unavailable as failure:
            self._tally.failure = failure.message.rstrip(".")
            raise
        finally:
            listening.end()


def _decoded(headers: Headers, body: bytes, most: int) -> tuple[Headers, bytes]:
    """Return headers and body without a content coding; as they came if it cannot be undone.

    Raise InvalidRequest if the body has more than `most` bytes then.
    """
    codings = first(headers, b"content-encoding")
    text = decoded(codings, body, most + 1) if codings else b""
    if len(text) > most:
        raise too_large(most)
    if not text:
        return headers, body  # the provider says what is wrong with it
    return without(headers, b"content-encoding", b"content-length"), text


def _below(scope: Scope, prefix: str) -> dict[str, Any]:
    """Return the request's path without a prefix."""
    raw = scope.get("raw_path") or scope["path"].encode()
    return {"path": scope["path"][len(prefix) :] or "/", "raw_path": raw[len(prefix) :] or b"/"}


def _again(body: bytes, receive: Receive) -> Receive:
    """A request whose body has been read already."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Any:
        return left.pop() if left else await receive()

    return next_message
