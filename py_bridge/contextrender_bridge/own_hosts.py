"""Which web pages may talk to a server on this machine: its own, and nobody else's.

A page from anywhere can send requests to loopback, and by a name of its own that it makes point
there (DNS rebinding) also read the answers. What it cannot do is choose the `Host` and `Origin`
that its browser sends.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from typing import Any
from urllib.parse import urlsplit

from contextrender_bridge.base.settings import current_settings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]

SETTING = "CONTEXTRENDER_ALLOWED_HOSTS"
_ELSEWHERE = frozenset({b"cross-site", b"same-site"})


class OwnHosts:
    """ASGI middleware for every route: over loopback, only for this machine's names and pages.

    The setting `allowed_hosts` lists others, as `name` or `name:port`.
    """

    def __init__(self, app: App) -> None:
        """Guards all of `app`."""
        self._app = app
        self._allowed = current_settings().allowed_hosts

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answers 421 to another host's name and 403 to another's page, before any route."""
        refused = None if scope["type"] == "lifespan" else self.refusal(scope)
        if refused is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _refuse(send, *refused)

    def refusal(self, scope: Any) -> tuple[int, str, str] | None:
        """The status, code and sentence that refuse a request; None where it may go on."""
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            return 400, "several_hosts", "A request names one host."
        if not is_loopback((scope.get("server") or ("",))[0]):
            return None
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not self._is_known(host):
            sentence = f"This server answers to this machine's names alone; {SETTING} lists others."
            return 421, "unknown_host", sentence
        origin = headers.get(b"origin")
        if origin is None:
            foreign = headers.get(b"sec-fetch-site") in _ELSEWHERE and not _is_visit(scope, headers)
        else:
            page = urlsplit(origin.decode("latin-1").lower()).netloc
            foreign = page != host and page not in self._allowed
        if foreign:
            return 403, "foreign_origin", f"Another site's page asks; {SETTING} lists those it may."
        return None

    def _is_known(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        known = name == "localhost" or is_loopback(name)
        return known or name in self._allowed or host in self._allowed


def is_loopback(address: object) -> bool:
    """Whether that is an IP address of this machine alone."""
    with suppress(ValueError):
        found = ip_address(str(address))
        if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
            return found.ipv4_mapped.is_loopback
        return found.is_loopback
    return False


def _is_visit(scope: Any, headers: MutableMapping[bytes, bytes]) -> bool:
    """Whether a person follows a link: the site it was on sees nothing of the answer."""
    shown = headers.get(b"sec-fetch-dest") == b"document"
    return shown and scope.get("method") in ("GET", "HEAD")


async def _refuse(send: Send, status: int, code: str, message: str) -> None:
    body = json.dumps({"error": {"type": code, "code": code, "message": message}}).encode()
    length = str(len(body)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
