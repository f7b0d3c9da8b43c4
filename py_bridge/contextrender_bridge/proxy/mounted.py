"""The proxy as a part of the service: it reaches the walkers in process, for the token's user."""

from __future__ import annotations

from collections.abc import Callable

import httpx
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.proxy.app import Proxy, Scope
from contextrender_bridge.proxy.headers import Headers, first
from contextrender_bridge.proxy.routing import Target, bearer, is_compression
from contextrender_bridge.proxy.upstream import Receive, Send, send_error
from contextrender_bridge.settings import Settings

URL = "http://contextrender.mounted"
PATHS = ("/v1/{path:path}", "/s/{session}/{path:path}")


class MountedProxy:
    """Serves those who bring a token of this service: it is no relay for strangers."""

    def __init__(
        self,
        settings: Settings,
        user_of: Callable[[str], str | None],
        walkers: ASGIApp,
    ) -> None:
        """`user_of` names the user of a good token; `walkers` is the service's app for them."""
        self._user_of = user_of
        self._spenders = settings.provider_users
        inside = AsyncContextRender(URL, "none", retries=0, transport=httpx.ASGITransport(walkers))
        self._proxy = Proxy(settings, inside, own_token=False, spends=self._may_spend)

    def routes(self) -> list[BaseRoute]:
        """What the service forwards."""
        return [Route(path, self) for path in PATHS]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        headers = scope["headers"]
        token = first(headers, b"x-contextrender-token")
        if not token and is_compression(Target.of(scope["path"]).path):
            token = bearer(headers) or ""
        if not token or self._user_of(token) is None:
            sentence = "Send a token of this service: `x-contextrender-token: TOKEN`."
            await send_error(send, 401, "unauthorized", sentence, [])
            return
        await self._proxy(scope, receive, send)

    def _may_spend(self, headers: Headers) -> bool:
        """Whether a caller may use this process's keys for other providers."""
        return self._user_of(first(headers, b"x-contextrender-token")) in self._spenders

    async def close(self) -> None:
        """Gives back the connections to providers."""
        await self._proxy.close()
