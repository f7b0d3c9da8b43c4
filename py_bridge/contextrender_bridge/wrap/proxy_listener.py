"""The local server of a wrapped agent. It passes each route's requests to a provider's proxy."""

import secrets
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from contextrender_bridge.asgi import App, Headers, Receive, Scope, Send, answer_lifespan, read_body
from contextrender_bridge.base.contents import decode_body
from contextrender_bridge.base.errors import InvalidRequest, NotFound
from contextrender_bridge.proxy.app import Proxy
from contextrender_bridge.proxy.provider import Unavailable
from contextrender_bridge.proxy.request import Target, first, without
from contextrender_bridge.request_guards import BodyLimits, too_large
from contextrender_bridge.wrap.provider_routes import LINK, PREFIX, ProviderRoutes
from contextrender_bridge.wrap.run_totals import CallCapture, TotalsCollector

MODEL_CALLS = ("/chat/completions", "/responses", "/messages")
MODE = b"x-contextrender-mode"
PROJECT = b"openai-project"
"""A header whose value Codex takes from a variable.

In this variable, wrap puts the secret before the user's value.
"""


class ProxyListener:
    """Checks the secret, passes requests to the proxies, and collects the provider's usage."""

    def __init__(
        self,
        routes: ProviderRoutes,
        proxies: Mapping[str, Proxy],
        collector: TotalsCollector,
        is_passed_through: Callable[[bytes], bool],
        bodies: BodyLimits,
        mcp: App | None = None,
    ) -> None:
        """Create the listener.

        `proxies` has the proxy of each route by the route's name. `is_passed_through` returns
        whether a model call with a given body is forwarded unchanged. `bodies` limits the bodies
        that are read into memory. `mcp` serves the recall tool; None means that there is none.
        """
        self._routes = routes
        self._proxies = proxies
        self._collector = collector
        self._is_passed_through = is_passed_through
        self._bodies = bodies
        self._mcp = mcp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or the server's startup and shutdown events.

        If there is a recall tool, its app also receives these events.
        """
        if scope["type"] == "lifespan" and self._mcp:
            await self._mcp(scope, receive, self._close_before_shutdown(send))
        elif scope["type"] == "lifespan":
            await answer_lifespan(receive, send, self._close)
        elif scope["type"] == "http":
            await self._admit(scope, receive, send)

    def _close_before_shutdown(self, send: Send) -> Send:
        """Return a `send` that closes the proxies' connections before it completes a shutdown."""

        async def send_after_close(message: Any) -> None:
            """Send a message. Before the message that completes a shutdown, close the proxies."""
            if message["type"] == "lifespan.shutdown.complete":
                await self._close()
            await send(message)

        return send_after_close

    async def _close(self) -> None:
        """Close the connections of all proxies."""
        for proxy in self._proxies.values():
            await proxy.close()

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on: to the recall tool, or, if it has the secret, to its route's proxy.

        The path is `/w/mcp`, or `/w/SECRET/ROUTE/PATH`, or `/w/ROUTE/PATH` with the secret in a
        header. The proxy receives `/PATH`, and headers without the secret. Raise NotFound for any
        other request, and InvalidRequest for a WebSocket.
        """
        # In the decoded path, a slash may come from an escape and separate nothing.
        path = _raw_path(scope)
        if not path.startswith(PREFIX):
            raise NotFound("Nothing is here.")
        path = path.removeprefix(PREFIX)
        if path.partition("/")[0] == "mcp" and self._mcp is not None:
            # The recall tool checks its own token.
            below = {**scope, **_path_below(scope, PREFIX.rstrip("/"))}
            with self._bodies.reading(scope, receive) as limited_receive:
                await self._mcp(below, limited_receive, send)
            return

        # The secret is in a header, or it is the first part of the path.
        has_secret, headers = self._read_secret_header(scope["headers"])
        prefix = PREFIX
        if not has_secret:
            secret, _, path = path.partition("/")
            has_secret, prefix = self._is_secret(secret), f"{PREFIX}{secret}/"
        if not has_secret:
            raise NotFound("Nothing is here.")

        if first(headers, b"upgrade").lower() == "websocket":
            # After this status Codex uses HTTP at once. After any other it retries for seconds.
            raise InvalidRequest("Use HTTP here.", code="http_only", status=426)
        # The next part is the route. Its proxy receives only the path behind it.
        route, _, _ = path.partition("/")
        if route not in self._proxies:
            raise NotFound(f"There is no route {route} here.")
        scope = {**scope, "headers": headers, **_path_below(scope, f"{prefix}{route}")}
        await self._forward(self._proxies[route], scope, receive, send)

    def _is_secret(self, text: str) -> bool:
        """Return whether a text is the secret. The comparison's duration does not reveal it."""
        return secrets.compare_digest(text.encode(), self._routes.secret.encode())

    def _read_secret_header(self, headers: Headers) -> tuple[bool, Headers]:
        """Return whether a header has the secret, and the headers without the secret.

        The header `LINK` has the secret as its value. Codex's built-in provider cannot send that
        header, so it sends the secret before the project's name in the header `PROJECT`.
        """
        if self._is_secret(first(headers, LINK.encode())):
            return True, without(headers, LINK.encode())
        secret, _, project = first(headers, PROJECT).partition(" ")
        if not self._is_secret(secret):
            return False, headers
        project_header = [(PROJECT, project.encode("latin-1"))] if project else []
        return True, [*without(headers, PROJECT), *project_header]

    async def _forward(self, proxy: Proxy, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to a provider's proxy.

        The bodies of model calls and of requests to the proxy's own endpoints are read into memory,
        so their size is limited. The proxy forwards other bodies without reading them.
        """
        is_model_call = scope["method"] == "POST" and scope["path"].endswith(MODEL_CALLS)
        is_read_here = is_model_call or Target.of(_raw_path(scope)).is_own_endpoint
        if not is_read_here:
            await proxy(scope, receive, send)
            return
        with self._bodies.reading(scope, receive) as limited_receive:
            if is_model_call:
                await self._forward_model_call(proxy, scope, limited_receive, send)
            else:
                await proxy(scope, limited_receive, send)

    async def _forward_model_call(
        self, proxy: Proxy, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Forward a model call with its body decoded, and add the call to the totals.

        A call that is passed through gets a header, so that the proxy forwards it unchanged. If the
        provider cannot be reached, the message is kept for the report, and Unavailable is raised.
        """
        body = await read_body(receive)
        headers, body = _decode_body(scope["headers"], body, self._bodies.max_bytes)
        if self._is_passed_through(body):
            headers = [*without(headers, MODE), (MODE, b"bypass")]
        # The capture forwards the reply and reads its usage.
        capture = CallCapture(self._collector, headers, send)
        try:
            await proxy({**scope, "headers": headers}, _replay_body(body, receive), capture)
        except Unavailable as failure:
            self._collector.failure = failure.message.rstrip(".")
            raise
        finally:
            capture.end()


def _decode_body(headers: Headers, body: bytes, max_bytes: int) -> tuple[Headers, bytes]:
    """Return the headers and the body of a request, with the body decompressed.

    The returned headers do not have the body's old encoding and length. If the body is not
    compressed or cannot be decoded, return both unchanged. Raise InvalidRequest if the decoded body
    has more than `max_bytes` bytes.
    """
    codings = first(headers, b"content-encoding")
    content = decode_body(codings, body, max_bytes + 1) if codings else b""
    if len(content) > max_bytes:
        raise too_large(max_bytes)
    if not content:
        return headers, body  # if it is damaged, the provider reports that
    return without(headers, b"content-encoding", b"content-length"), content


def _raw_path(scope: Scope) -> str:
    """Return the path as it was sent, before its escapes are decoded."""
    return bytes(scope.get("raw_path") or scope["path"].encode()).decode("latin-1")


def _path_below(scope: Scope, prefix: str) -> dict[str, Any]:
    """Return new values of the scope's fields `path` and `raw_path`, without a prefix."""
    path = _raw_path(scope)[len(prefix) :] or "/"
    return {"path": unquote(path), "raw_path": path.encode("latin-1")}


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a function to use instead of `receive`, after the body has been read from it.

    Its first call returns the body again. Later calls go to `receive`.
    """
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Any:
        return pending.pop() if pending else await receive()

    return next_message
