"""The proxy as a part of the service: it reaches the walkers in process, for the token's user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from starlette.routing import BaseRoute, Route

from contextrender_bridge.base.errors import ContextRenderError
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.client.connection import Answer, Exchange, Wait
from contextrender_bridge.client.core import Core
from contextrender_bridge.proxy.app import Proxy, Scope
from contextrender_bridge.proxy.routing import Target, bearer, first, is_compression
from contextrender_bridge.proxy.upstream import Receive, Send, send_error

URL = "http://contextrender.mounted"
Walk = Callable[[str, Mapping[str, Any], Any], Awaitable[Answer]]
_USER: ContextVar[Any] = ContextVar("user")
"""The user whose request it is: whatever is done for it is done for that one."""
PATHS = ("/v1/{path:path}", "/s/{session}/{path:path}")


class MountedProxy:
    """Serves those who bring a token of this service: it is no relay for strangers."""

    def __init__(
        self,
        settings: Settings,
        user_of: Callable[[str], Awaitable[Any]],
        walk: Walk,
    ) -> None:
        """`user_of` gives a good token's user, who has a `name`, or raises a ContextRenderError;
        `walk` answers a walker's name, its fields and a user.
        """
        self._user_of = user_of
        self._proxy = Proxy(settings, _Inside(walk), own_token=False)

    def tell_failures(self, heard: Callable[[str], None]) -> None:
        """Has `heard` told why, whenever a history goes through unchanged."""
        self._proxy.histories.failures.heard = heard

    def routes(self) -> list[BaseRoute]:
        """What the service forwards."""
        return [Route(path, self) for path in PATHS]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        headers = scope["headers"]
        token = first(headers, b"x-contextrender-token")
        if not token and is_compression(Target.of(scope["path"]).path):
            token = bearer(headers) or ""
        try:
            user = await self._user_of(token)
        except ContextRenderError as refused:
            sentence = refused.message
            if refused.status == 401:
                sentence = "Send a token of this service: `x-contextrender-token: TOKEN`."
            wait = refused.details.get("retry_after")
            more = [(b"retry-after", str(wait).encode())] if wait else []
            await send_error(send, refused.status, refused.code, sentence, more)
            return
        _USER.set(user)
        await self._proxy(scope, receive, send)

    async def close(self) -> None:
        """Gives back the connections to providers."""
        await self._proxy.close()


class _Inside(AsyncContextRender):
    """Asks the walkers of this process, for the user whose request it is, without HTTP or JSON."""

    def __init__(self, walk: Walk) -> None:
        self._core = Core(URL, "none", retries=0)
        self.failures = self._core.failures
        self._walk = walk

    async def close(self) -> None:
        """Has no connections."""

    async def _take(self, step: Exchange | Wait) -> Answer:
        assert isinstance(step, Exchange), "nothing is tried again"
        return await self._walk(step.path.rpartition("/")[2], step.fields, _USER.get())
