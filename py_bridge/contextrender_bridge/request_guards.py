"""Guards before any route, against too many connections, large or slow requests, and other sites.

Long because the guard of an application also limits the bodies of its requests.

Any site's page can send requests to loopback. If its own host name points there (DNS rebinding), it
can also read the answers. But it cannot choose the `Host` and `Origin` that its browser sends.
"""

import asyncio
import re
from asyncio import TimerHandle, Transport
from collections import Counter
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from contextrender_bridge.asgi import (
    REQUEST,
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
from contextrender_bridge.base.settings import Settings, current_settings

PAUSE_SECONDS: Final = 30.0
"""The maximum pause of a client that sends a body, in seconds."""
MAX_BODIES: Final = 4
"""The limit of all bodies together, as a multiple of the largest body. One user has half of it."""
SETTING = "CONTEXTRENDER_ALLOWED_HOSTS"
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
"""A name or an address, and a port. Parsers of addresses might read anything else differently."""
_OTHER_SITES = frozenset({b"cross-site", b"same-site"})
"""The values of Sec-Fetch-Site in requests of other sites' pages."""


class BodyLimits:
    """The limits of the bodies in memory. A body counts until its request is answered."""

    def __init__(
        self,
        settings: Settings,
        small: Mapping[str, int] = {},
        max_pause: float = PAUSE_SECONDS,
    ) -> None:
        """Limit bodies as the settings say.

        `small` has lower limits, in bytes, for the paths that it names.
        """
        self.max_bytes = settings.max_body_mb * 2**20
        self._small = small
        self._max_pause = max_pause
        self._body_seconds = settings.body_timeout
        self._bytes_by_user: Counter[str] = Counter()

    @contextmanager
    def reading(self, scope: Scope, receive: Receive) -> Iterator[Receive]:
        """Yield a `receive` that counts the body's bytes and raises InvalidRequest above a limit.

        At the end of the block, the body's bytes no longer count. If the Content-Length is too
        large, raise InvalidRequest at once.
        """
        max_bytes = self._small.get(scope["path"], self.max_bytes)
        content_length = dict(scope["headers"]).get(b"content-length", b"0")
        if content_length.isdigit() and int(content_length) > max_bytes:
            raise too_large(max_bytes)
        # A request may begin before its user is known, so count its bytes for each user or, without
        # one, for the client's address.
        deadline = asyncio.get_running_loop().time() + self._body_seconds
        address = (scope.get("client") or ("",))[0]
        request_bytes: Counter[str] = Counter()
        is_complete = False

        async def receive_counted() -> Message:
            """Return the next message, and count its bytes for the request and its user.

            Raise InvalidRequest if the request's body, or all bodies in memory, are too large.
            """
            nonlocal is_complete
            if is_complete:
                return await receive()  # After the body, only a disconnection follows.
            message = await self._receive_in_time(receive, deadline)
            is_complete = not message.get("more_body", False)
            if size := len(message.get("body", b"")):
                request = REQUEST.get()
                user = (request and request.user) or f"address {address}"
                request_bytes[user] += size
                self._bytes_by_user[user] += size
                if request_bytes.total() > max_bytes:
                    raise too_large(max_bytes)
                self._check_total(user)
            return message

        try:
            yield receive_counted
        finally:
            self._bytes_by_user -= request_bytes

    async def _receive_in_time(self, receive: Receive, deadline: float) -> Message:
        """Return the next message. Raise InvalidRequest (408) if it does not arrive in time.

        It must arrive within the maximum pause and before the body's `deadline`.
        """
        remaining_seconds = max(deadline - asyncio.get_running_loop().time(), 0)
        try:
            return await asyncio.wait_for(receive(), min(self._max_pause, remaining_seconds))
        except TimeoutError:
            sentence = "The body did not arrive in time."
            raise InvalidRequest(sentence, code="request_timeout", status=408) from None

    def _check_total(self, user: str) -> None:
        """Raise InvalidRequest (503) if all bodies in memory, or this user's, exceed their limit.

        One user may have half of the limit for all users.
        """
        max_total = MAX_BODIES * self.max_bytes
        user_bytes, total = self._bytes_by_user[user], self._bytes_by_user.total()
        if user_bytes > max_total / 2 or total > max_total:
            sentence = "Too much is being sent at once. Try again in a moment."
            raise InvalidRequest(
                sentence, code="too_many_bytes_in_flight", status=503, retry_after=1
            )


def too_large(max_bytes: int) -> InvalidRequest:
    """Return the error of a body with more than `max_bytes`."""
    size = f"{max_bytes / 2**20:g} MB" if max_bytes >= 2**20 else f"{max_bytes} bytes"
    return InvalidRequest(f"A body may have up to {size}.", code="body_too_large", status=413)


class Guard:
    """ASGI middleware of each of our applications: it checks hosts, and sends errors.

    Over loopback it accepts only this machine's host names and pages. The setting `allowed_hosts`
    lists others, as `name` or `name:port`. A ContextRenderError of the application becomes a reply.
    """

    def __init__(self, app: App) -> None:
        """Guard `app`, which limits request bodies itself."""
        self._app = app
        self._allowed_hosts = current_settings().allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or refuse it."""
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket" and self._refusal(scope):
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer an HTTP request, or send the error that refuses it."""
        has_started = False

        async def send_and_remember(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            self.check(scope)
            await self._app(scope, receive, send_and_remember)
        except ClientDisconnected:
            return
        except ContextRenderError as error:
            if has_started:  # A reply that has begun can only be broken off.
                raise
            await send_error(send, error)

    def check(self, scope: Scope) -> None:
        """Raise the error that refuses a request, if it is refused."""
        if refusal := self._refusal(scope):
            raise refusal

    def _refusal(self, scope: Scope) -> InvalidRequest | None:
        """Return the error that refuses a request, or None if the request is accepted.

        Refuse a request with several hosts. Refuse a request over loopback if its host is unknown
        or if it comes from another site's page.
        """
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            return InvalidRequest("A request names one host.", code="several_hosts", status=400)
        server_address = (scope.get("server") or ("",))[0]
        if not is_loopback(server_address):
            return None
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not self._is_known_host(host):
            sentence = f"This server answers to this machine's names alone; {SETTING} lists others."
            return InvalidRequest(sentence, code="unknown_host", status=421)
        if not self._is_from_other_site(scope, headers, host):
            return None
        sentence = f"A page of another site sent this request. {SETTING} lists the allowed sites."
        return InvalidRequest(sentence, code="origin_not_allowed", status=403)

    def _is_from_other_site(
        self, scope: Scope, headers: MutableMapping[bytes, bytes], host: str
    ) -> bool:
        """Return whether the browser's headers show that another site's page sent the request."""
        origin = headers.get(b"origin")
        if origin is None:
            is_other = headers.get(b"sec-fetch-site") in _OTHER_SITES
            # If a person follows another site's link, the browser opens the page for the person.
            # The other site cannot read it.
            return is_other and not _opens_page(scope, headers)
        origin_host = urlsplit(origin.decode("latin-1").lower()).netloc
        return origin_host != host and origin_host not in self._allowed_hosts

    def _is_known_host(self, host: str) -> bool:
        """Return whether a `Host` names this machine or is in the setting `allowed_hosts`."""
        if not (match := _HOST.fullmatch(host)):
            return False
        name = match[1].strip("[]")
        is_local = name == "localhost" or is_loopback(name)
        return is_local or name in self._allowed_hosts or host in self._allowed_hosts


def is_loopback(address: object) -> bool:
    """Return whether a text is an IP address of the loopback interface."""
    with suppress(ValueError):
        parsed = ip_address(str(address))
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            return parsed.ipv4_mapped.is_loopback
        return parsed.is_loopback
    return False


def _opens_page(scope: Any, headers: MutableMapping[bytes, bytes]) -> bool:
    """Return whether a browser sent the request to open a page, as when a link is followed."""
    is_page = headers.get(b"sec-fetch-dest") == b"document"
    return is_page and scope.get("method") in ("GET", "HEAD")


MAX_HEADER_BYTES: Final = 65_536
"""The largest headers and address of a request. They are read before the token is checked."""


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's own protocol, which also refuses too many connections, and large or slow headers.

    `header_timeout` is the time in which all headers of a request must arrive. It begins with the
    connection or with the request's first byte. `BodyLimits` limits bodies.
    """

    max_connections: ClassVar[int]
    header_timeout: ClassVar[float]
    _header_timer: TimerHandle | None = None
    _header_bytes = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Start the timer for a request's headers, unless there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._refuse(429, "too_many_connections", "Too many connections. Try again soon.")
        else:
            self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_header_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Refuse headers that are too large before all of them have arrived."""
        super().data_received(data)
        if self._header_timer is not None:
            self._header_bytes += len(data)
            if self._header_bytes > MAX_HEADER_BYTES:
                self._refuse_large_headers()

    def on_message_begin(self) -> None:
        """Start the timer if the request is not the connection's first one."""
        super().on_message_begin()
        if self._header_timer is None:
            self._start_header_timer()

    def on_headers_complete(self) -> None:
        """Stop the timer, and pass the request on if its headers are valid."""
        self._stop_header_timer()
        header_bytes = sum(len(name) + len(value) for name, value in self.headers)
        if len(self.url) + header_bytes > MAX_HEADER_BYTES:
            self._refuse_large_headers()
        elif b"#" in self.url:
            self._refuse(400, "invalid_path", "An address that is asked for has no fragment.")
        elif self._names_other_host():
            self._refuse(400, "unknown_host", "The first line names another host than `Host`.")
        else:
            super().on_headers_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing, because Codex tries a WebSocket first, and the application refuses it."""

    def _names_other_host(self) -> bool:
        """Return whether the address in the first line has a host that is not in `Host`."""
        address = urlsplit(self.url)
        hosts = [value for name, value in self.headers if name == b"host"]
        return bool(address.netloc) and address.netloc.lower() not in map(bytes.lower, hosts)

    def _start_header_timer(self) -> None:
        self._header_timer = self.loop.call_later(self.header_timeout, self._refuse_late_headers)

    def _stop_header_timer(self) -> None:
        """Stop the timer, and begin to count the next request's header bytes from 0."""
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None
        self._header_bytes = 0

    def _refuse_late_headers(self) -> None:
        self._header_timer = None
        self._refuse(408, "request_timeout", "The head of the request did not arrive in time.")

    def _refuse_large_headers(self) -> None:
        self._refuse(431, "headers_too_large", f"A head may have up to {MAX_HEADER_BYTES} bytes.")

    def _refuse(self, status: int, code: str, sentence: str) -> None:
        """Send an error without the application, and close the connection."""
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


def guarded_protocol(max_connections: int, header_timeout: float) -> type[Any]:
    """Return a GuardedProtocol with these limits, for uvicorn's option `http`."""
    limits = {"max_connections": max_connections, "header_timeout": header_timeout}
    return type("LimitedProtocol", (GuardedProtocol,), limits)
