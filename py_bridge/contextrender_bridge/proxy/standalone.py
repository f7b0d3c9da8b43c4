"""The proxy on its own, in front of a service."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.client.credentials import load_credentials
from contextrender_bridge.listening import STATUS_PATH
from contextrender_bridge.proxy.app import Proxy
from contextrender_bridge.proxy.upstream import Receive, Send, send_whole
from contextrender_bridge.request_guards import App, OwnHosts


class Standalone:
    """The proxy and its status page."""

    def __init__(self, proxy: Proxy) -> None:
        """Closes the proxy when the server ends."""
        self.proxy = proxy

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answers one request, or takes part in the server's start and end."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["path"] == STATUS_PATH:
            status = {"status": "ok", "fail_open": self.proxy.histories.failures.counts()}
            await send_whole(send, 200, [], wire.dumps(status))
        else:
            await self.proxy(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            event = (await receive())["type"]
            if event == "lifespan.shutdown":
                await self.proxy.close()
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return


def standalone_app(settings: Settings, *, own_token: bool = True, secret: str = "") -> App:
    """The proxy over the service that the environment or the local file names, for its own hosts.

    `own_token`: the service's token also serves this user's programs, and links with the `secret`.
    Raises NoCredentials.
    """
    load_credentials()
    proxy = Proxy(settings, AsyncContextRender(), own_token=own_token, secret=secret)
    return OwnHosts(Standalone(proxy))
