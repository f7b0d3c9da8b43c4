"""One process that serves the app: alone, or as one of several workers."""

import gc
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from contextrender_bridge.client.credentials import stored_credentials
from contextrender_bridge.server.allocator import give_back
from contextrender_bridge.server.announce import announced
from contextrender_bridge.server.app import build_app
from contextrender_bridge.server.connections import guarded
from contextrender_bridge.server.console import console_link
from contextrender_bridge.server.idle import Idle, stopped_when_idle
from contextrender_bridge.server.logs import configure_logging
from contextrender_bridge.server.recovering import Recovering
from contextrender_bridge.server.tokens import Tokens
from contextrender_bridge.server.warming import load_ahead
from contextrender_bridge.settings import current_settings


class Announcing(uvicorn.Server):
    """Calls `ready` once it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens."""
        await super().startup(sockets)
        if self.started:
            self._ready()


def serve_alone(
    listener: socket.socket,
    url: str,
    data: Path,
    app: Path,
    slow: threading.Timer,
    idle: float | None,
) -> int:
    """Until a signal ends it, or `idle` seconds without use; `slow` tells of a long start."""
    configure_logging()
    say = partial(say_ready, url, data)
    asgi = Recovering(lambda: build_app(data, app=app), say)
    warm_up()
    slow.cancel()
    use = Idle(asgi, data)
    settings = current_settings()
    config = http_config(use, guarded(settings.connections, settings.head_seconds))
    end_in_order()
    server = Announcing(config, lambda: say() if asgi.app else None)
    with announced(url, asgi.token, data), stopped_when_idle(server, use, idle):
        server.run(sockets=[listener])
    return 0


def http_config(app: Recovering | Idle, protocol: type[Any]) -> uvicorn.Config:
    """How uvicorn serves the app."""
    return uvicorn.Config(
        app,
        http=protocol,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=10,
    )


def say_ready(url: str, data: Path) -> None:
    """Tells whoever started it where it is."""
    print(f"ContextRender is ready at {url} (data in {data.resolve()})", flush=True)
    # It signs in, so it is for the person at the terminal, not for a log.
    if sys.stdout.isatty():
        code = Tokens(data).code(stored_credentials(data).token)
        print(
            f"Console (once; `contextrender console` opens it again): {console_link(url, code)}",
            flush=True,
        )


def end_in_order() -> None:
    """uvicorn raises a signal again once it has shut down; by then it has done its work."""
    signal.signal(signal.SIGTERM, _ignore)
    signal.signal(signal.SIGINT, _ignore)


def warm_up() -> None:
    """Load what the first request would wait for, and leave it all out of garbage collection.

    A collection that looks through the runtime's 90,000 objects stops every request for 20 ms.
    """
    load_ahead()
    gc.collect()
    give_back()
    gc.freeze()


def _ignore(_: int, __: FrameType | None) -> None:
    """Neither a traceback nor death by signal: a stopped server exits with 0."""
