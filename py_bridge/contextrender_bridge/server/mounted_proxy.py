"""The proxy mounted in a service: it runs the service's walkers in the same process."""

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
from contextrender_bridge.proxy.request import Request, bearer
from contextrender_bridge.server.accounts.callers import Caller

PATHS: Final = ("/v1/{path:path}", "/s/{session}/{path:path}")
URL: Final = "http://contextrender.mounted"
RunWalker = Callable[[str, Mapping[str, Any], Caller], Awaitable[ServiceReply]]
"""A function that runs a walker, given its name, its fields and the user, and returns its reply."""
_USER: ContextVar[Caller] = ContextVar("user")
"""The user of the current request."""


def mounted_proxy(
    settings: Settings, user_of: Callable[[str], Awaitable[Caller]], run_walker: RunWalker
) -> Proxy:
    """Return a proxy that serves only requests with a token of this service.

    `user_of` returns the user of a valid token, or raises Unauthorized.
    """

    async def identify(_: Scope, request: Request) -> bool:
        """Set the user of the request by its token, or raise Unauthorized.

        Return False: no request may use the proxy's own token, because a mounted proxy has none.
        """
        token = request.values.get("x-contextrender-token", "")
        if not token and request.is_own_endpoint:
            # The proxy's own endpoints need no provider's key, so the bearer may be our token.
            token = bearer(request.values) or ""
        try:
            _USER.set(await user_of(token))
        except Unauthorized:
            sentence = "Send a token of this service: `x-contextrender-token: TOKEN`."
            raise Unauthorized(sentence) from None
        return False

    return Proxy(settings, InProcessClient(run_walker), identify)


class InProcessClient(AsyncContextRender):
    """A client that runs this process's walkers without HTTP, as the current request's user."""

    def __init__(self, run_walker: RunWalker) -> None:
        """Run walkers by `run_walker`.

        `Core` requires an address and a token, but neither is used: `run_walker` gets the walker's
        name and the request's user. Walkers of this process need no retries.
        """
        self.core = Core(URL, "none", retries=0)
        self.failures = self.core.failures
        self._run_walker = run_walker

    async def close(self) -> None:
        """Do nothing, because there are no connections."""

    @override
    async def _run_step(self, step: Step) -> ServiceReply:
        """Run the walker that an exchange names in its path, and return its reply."""
        assert isinstance(step, Exchange), "there are no retries"
        return await self._run_walker(step.path.rpartition("/")[2], step.fields, _USER.get())
