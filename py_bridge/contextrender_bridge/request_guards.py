"""Guards before any route.

They refuse too many connections, headers that are large or slow, and other sites' pages.
A page from anywhere can send requests to loopback, and by a name of its own that it makes point
there (DNS rebinding) also read the answers. What it cannot do is choose the `Host` and `Origin`
that its browser sends.
"""

from __future__ import annotations

import re
from asyncio import TimerHandle, Transport
from collections.abc import MutableMapping
from contextlib import suppress
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from contextrender_bridge.asgi import (
    App,
    ClientDisconnected,
    Message,
    Receive,
    Scope,
    Send,
    error_fields,
    send_error,
)
from contextrender_bridge.base import wire
from contextrender_bridge.base.errors import ContextRenderError, InvalidRequest
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.body_limits import BodyLimits

SETTING = "CONTEXTRENDER_ALLOWED_HOSTS"
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
"""A name or an address, and a port: nothing that a parser of addresses may read in two ways."""
_ELSEWHERE = frozenset({b"cross-site", b"same-site"})


class Guard:
    """ASGI middleware around each of our applications: hosts, bodies, and errors.

    Over loopback it answers only to this machine's names and pages; the setting `allowed_hosts`
    lists others, as `name` or `name:port`. A ContextRenderError from within becomes the reply.
    """

    def __init__(self, app: App, bodies: BodyLimits | None = None) -> None:
        """Guard `app`. Without `bodies` the application limits what it reads itself."""
        self._app = app
        self._bodies = bodies
        self._allowed_hosts = current_settings().allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it before any route."""
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket" and self._refusal(scope):
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def note_start(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            if refused := self._refusal(scope):
                raise refused
            if self._bodies is None:
                await self._app(scope, receive, note_start)
            else:
                with self._bodies.reading(scope, receive) as limited:
                    await self._app(scope, limited, note_start)
        except ClientDisconnected:
            return
        except ContextRenderError as error:
            if started:
                raise
            await send_error(send, error)

    def _refusal(self, scope: Scope) -> InvalidRequest | None:
        """Return why a request is not for this server; None if it is."""
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            return InvalidRequest("A request names one host.", code="several_hosts", status=400)
        if not is_loopback((scope.get("server") or ("",))[0]):
            return None
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not self._is_known(host):
            sentence = f"This server answers to this machine's names alone; {SETTING} lists others."
            return InvalidRequest(sentence, code="unknown_host", status=421)
        origin = headers.get(b"origin")
        if origin is None:
            foreign = headers.get(b"sec-fetch-site") in _ELSEWHERE and not _is_visit(scope, headers)
        else:
            page = urlsplit(origin.decode("latin-1").lower()).netloc
            foreign = page != host and page not in self._allowed_hosts
        if not foreign:
            return None
        sentence = f"Another site's page asks; {SETTING} lists those it may."
        return InvalidRequest(sentence, code="origin_not_allowed", status=403)

    def _is_known(self, host: str) -> bool:
        if not (match := _HOST.fullmatch(host)):
            return False
        name = match[1].strip("[]")
        is_local = name == "localhost" or is_loopback(name)
        return is_local or name in self._allowed_hosts or host in self._allowed_hosts


def is_loopback(address: object) -> bool:
    """Return whether that is an IP address of this machine alone."""
    with suppress(ValueError):
        parsed = ip_address(str(address))
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            return parsed.ipv4_mapped.is_loopback
        return parsed.is_loopback
    return False


def _is_visit(scope: Any, headers: MutableMapping[bytes, bytes]) -> bool:
    """Return whether a person follows a link; the site it was on sees nothing of the answer."""
    is_page = headers.get(b"sec-fetch-dest") == b"document"
    return is_page and scope.get("method") in ("GET", "HEAD")


HEAD_BYTES: Final = 65_536
"""The limit of a request's headers, which are read before its token is checked."""


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's own protocol, which refuses too many connections and headers that are slow.

    `header_timeout` is the time from a connection, or from a request's first byte, until the
    request's headers are there. Bodies are under body_limits.
    """

    max_connections: ClassVar[int]
    header_timeout: ClassVar[float]
    _head_timer: TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Start waiting for a request, unless there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._refuse(429, "too_many_connections", "Too many connections. Try again soon.")
        else:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Stop reading a head that is too large."""
        super().data_received(data)
        if self._head_timer is not None:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._refuse_head()

    def on_message_begin(self) -> None:
        """Wait for the rest of the head."""
        super().on_message_begin()
        if self._head_timer is None:
            self._wait_for_head()

    def on_headers_complete(self) -> None:
        """Stop waiting: the request is for the application now."""
        self._head_is_there()
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES:
            self._refuse_head()
        elif b"#" in self.url:
            self._refuse(400, "invalid_path", "An address that is asked for has no fragment.")
        elif self._asks_elsewhere():
            self._refuse(400, "unknown_host", "The first line names another host than `Host`.")
        else:
            super().on_headers_complete()

    def _asks_elsewhere(self) -> bool:
        """Return whether the address in the first line is absolute, and of another host."""
        address = urlsplit(self.url)
        hosts = [value for name, value in self.headers if name == b"host"]
        return bool(address.netloc) and address.netloc.lower() not in map(bytes.lower, hosts)

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(self.header_timeout, self._head_is_late)

    def _head_is_there(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        self._head_bytes = 0

    def _head_is_late(self) -> None:
        self._head_timer = None
        self._refuse(408, "request_timeout", "The head of the request did not arrive in time.")

    def _refuse_head(self) -> None:
        self._refuse(431, "headers_too_large", f"A head may have up to {HEAD_BYTES} bytes.")

    def _refuse(self, status: int, code: str, sentence: str) -> None:
        if self.transport.is_closing():
            return
        body = wire.dumps(error_fields(InvalidRequest(sentence, code=code)))
        reason = HTTPStatus(status).phrase
        self.transport.write(
            f"HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
            + body
        )
        self.transport.close()


def guarded(max_connections: int, header_timeout: float) -> type[Any]:
    """Return the protocol under these limits, for uvicorn's `http`."""
    return type(
        "Guarded",
        (GuardedProtocol,),
        {"max_connections": max_connections, "header_timeout": header_timeout},
    )
