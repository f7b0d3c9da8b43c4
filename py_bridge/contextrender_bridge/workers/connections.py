"""Connections under limits: how many there may be, how long each may take to say what it wants."""

from asyncio import TimerHandle, Transport
from http import HTTPStatus
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES: Final = 65_536
"""Of a request's head, which comes before its token is looked at."""


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's own, that turns away what is too much and drops what is too slow.

    `most` connections at once; `head_seconds` from a connection or a request's first byte until the
    request's head is there. What comes after the head is under server.limits.
    """

    most: ClassVar[int]
    head_seconds: ClassVar[float]
    _head_timer: TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Start waiting for a request, unless there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
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
        """Whether the address in the first line is whole, and another's."""
        address = urlsplit(self.url)
        hosts = [value for name, value in self.headers if name == b"host"]
        return bool(address.netloc) and address.netloc.lower() not in map(bytes.lower, hosts)

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._head_is_late)

    def _head_is_there(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        self._head_bytes = 0

    def _head_is_late(self) -> None:
        self._head_timer = None
        self._refuse(408, "too_slow", "The head of the request did not arrive in time.")

    def _refuse_head(self) -> None:
        self._refuse(431, "head_too_large", f"A head may have up to {HEAD_BYTES} bytes.")

    def _refuse(self, status: int, code: str, sentence: str) -> None:
        if self.transport.is_closing():
            return
        body = f'{{"error":{{"code":"{code}","message":"{sentence}"}}}}'
        reason = HTTPStatus(status).phrase
        self.transport.write(
            f"HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()
        )
        self.transport.close()


def guarded(most: int, head_seconds: float) -> type[Any]:
    """The protocol under these limits, for uvicorn's `http`."""
    return type("Guarded", (GuardedProtocol,), {"most": most, "head_seconds": head_seconds})
