"""The proxy as a part of a service, where it reaches the walkers in this process."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, override

from contextrender_bridge.asgi import Scope
from contextrender_bridge.base.errors import Unauthorized
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.client.connection import Exchange, ServiceReply, Step
from contextrender_bridge.client.core import Core
from contextrender_bridge.proxy.app import Proxy
from contextrender_bridge.proxy.routing import Target, bearer, first
from contextrender_bridge.server.accounts.callers import Caller

PATHS: Final = ("/v1/{path:path}", "/s/{session}/{path:path}")
URL: Final = "http://contextrender.mounted"
Walk = Callable[[str, Mapping[str, Any], Caller], Awaitable[ServiceReply]]
_USER: ContextVar[Caller] = ContextVar("user")
"""The user whose request is being answered."""


def mounted_proxy(
    settings: Settings, user_of: Callable[[str], Awaitable[Caller]], walk: Walk
) -> Proxy:
    """Return a proxy for those who bring a token of this service: it is no relay for strangers.

    `user_of` returns a good token's user or raises a ContextRenderError. `walk` returns the reply
    to a walker's name, its fields and a user.
    """

    async def identify(scope: Scope, target: Target) -> bool:
        headers = scope["headers"]
        token = first(headers, b"x-contextrender-token")
        if not token and target.compresses:
            token = bearer(headers) or ""
        try:
            _USER.set(await user_of(token))
        except Unauthorized:
            sentence = "Send a token of this service: `x-contextrender-token: TOKEN`."
            raise Unauthorized(sentence) from None
        return False

    return Proxy(settings, InProcessClient(walk), identify)


class InProcessClient(AsyncContextRender):
    """A client of this process's walkers, for the user whose request it is, without HTTP."""

    def __init__(self, walk: Walk) -> None:
        self._core = Core(URL, "none", retries=0)
        self.failures = self._core.failures
        self._walk = walk

    async def close(self) -> None:
        """Do nothing, because there are no connections."""

    @override
    async def _run_step(self, step: Step) -> ServiceReply:
        """Run the walker that an exchange names."""
        assert isinstance(step, Exchange), "nothing is tried again"
        return await self._walk(step.path.rpartition("/")[2], step.fields, _USER.get())
