"""The proxy as a part of the service: it reaches the walkers in process, for the token's user."""

from __future__ import annotations

from collections.abc import Callable

import httpx
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.proxy.app import Proxy, Scope
from contextrender_bridge.proxy.headers import first
from contextrender_bridge.proxy.routing import Target, bearer, is_compression
from contextrender_bridge.proxy.upstream import Receive, Send, send_error
from contextrender_bridge.settings import Settings

URL = "http://contextrender.mounted"
PATHS = ("/v1/{path:path}", "/s/{session}/{path:path}")


class MountedProxy:
    """Serves those who bring a token of this service: it is no relay for strangers."""

    def __init__(self, settings: Settings, admits: Callable[[str], bool], walkers: ASGIApp) -> None:
        """`admits` says whether a token is good; `walkers` is the service's app for them."""
        self._admits = admits
        inside = AsyncContextRender(URL, "none", retries=0, transport=httpx.ASGITransport(walkers))
        self._proxy = Proxy(settings, inside, own_token=False)

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
