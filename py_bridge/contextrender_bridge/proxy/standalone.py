"""The proxy on its own, in front of a service elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.errors import CommandError, NoCredentials
from contextrender_bridge.base.paths import data_dir
from contextrender_bridge.base.settings import Settings, current_settings
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.client.credentials import FILE_NAME, load_credentials
from contextrender_bridge.guarding import App, OwnHosts
from contextrender_bridge.listening import STATUS_PATH
from contextrender_bridge.proxy.app import Proxy
from contextrender_bridge.proxy.upstream import Receive, Send, send_whole

WAIT_SECONDS = 300.0
LOOK_SECONDS = 0.2


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


def once_started(make: Callable[[], App]) -> App:
    """The app, once there are credentials. Raises CommandError where none will come.

    A proxy that was started before the service ever was waits for that one's first start, which
    makes the token. Later it needs no service to start: while none answers, histories go through
    whole.
    """
    may_come = not current_settings().url and not (data_dir() / FILE_NAME).exists()
    try:
        return make()
    except NoCredentials as missing:
        reason = str(missing)
    if not may_come:
        raise CommandError(reason)
    print(f"contextrender: {reason} Waiting for it ...", file=sys.stderr, flush=True)
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
        with suppress(NoCredentials):
            return make()
    raise CommandError(reason)
