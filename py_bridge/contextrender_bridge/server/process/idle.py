"""When a server that `contextrender wrap` started should stop."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contextrender_bridge.leases import any_alive

LOOK_SECONDS = 1.0


class Idle:
    """An ASGI app, and for how long nobody has used it."""

    def __init__(self, app: Any, data: Path) -> None:
        """Whoever holds a lease in `data` uses it, too."""
        self._app = app
        self._data = data
        self._running = 0
        self._last = time.monotonic()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Passes everything on."""
        if scope["type"] != "http" or scope["path"].startswith("/healthz"):  # to look is not to use
            await self._app(scope, receive, send)
            return
        self._running += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= 1
            self._last = time.monotonic()

    def seconds(self) -> float:
        """Since the last request ended or the last lease was seen."""
        if self._running or any_alive(self._data):
            self._last = time.monotonic()
        return time.monotonic() - self._last


@contextmanager
def stopped_when_idle(server: Any, use: Idle, seconds: float | None) -> Iterator[None]:
    """While the block runs: stops uvicorn's `server` after that long without use."""
    if seconds is None:
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(min(LOOK_SECONDS, seconds)):
            if use.seconds() >= seconds:
                server.should_exit = True
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
