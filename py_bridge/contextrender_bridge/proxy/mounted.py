"""The proxy as a part of the service: it reaches the walkers in process, for the token's user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.routing import BaseRoute, Route

from contextrender_bridge.async_client import AsyncContextRender
from contextrender_bridge.proxy.app import Proxy, Scope
from contextrender_bridge.proxy.headers import first
from contextrender_bridge.proxy.routing import Target, bearer, is_compression
from contextrender_bridge.proxy.settings import ProxySettings
from contextrender_bridge.proxy.upstream import Receive, Send, send_error

URL = "http://contextrender.mounted"
PATHS = ("/v1/{path:path}", "/s/{session}/{path:path}")

Ask = Callable[[str, bytes, str], Awaitable[tuple[int, bytes]]]
"""From a walker's name, its fields as JSON, and a token, to the status and body that answer."""


class MountedProxy:
    """Serves those who bring a token of this service: it is no relay for strangers."""

    def __init__(self, settings: ProxySettings, admits: Callable[[str], bool], ask: Ask) -> None:
        """`admits` says whether a token is good; `ask` calls a walker of the service."""
        self._admits = admits
        self._proxy = Proxy(settings, _Inside(ask), own_token=False)

    def routes(self) -> list[BaseRoute]:
        """What the service forwards."""
        return [Route(path, self) for path in PATHS]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        headers = scope["headers"]
        token = first(headers, b"x-contextrender-token")
        if not token and is_compression(Target.of(scope["path"]).path):
            token = bearer(headers) or ""
        if not token or not self._admits(token):
            sentence = "Send a token of this service: `x-contextrender-token: TOKEN`."
            await send_error(send, 401, "unauthorized", sentence, [])
            return
        await self._proxy(scope, receive, send)

    async def close(self) -> None:
        """Gives back the connections to providers."""
        await self._proxy.close()


class _Inside(AsyncContextRender):
    """A client without HTTP: what it sends and gets is the same."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(URL, "none", retries=0)
        self._ask = ask

    async def _exchange(self, path: str, body: bytes, token: str | None) -> tuple[int, bytes]:
        return await self._ask(path.removeprefix("/walker/"), body, token or "")
