"""The service in this process: no server, no port, the same app behind the same clients.

    with embedded() as service, service.client() as client:
        client.render("my-session", messages)

It needs the `[server]` extra.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.installing import how_to_serve
from contextrender_bridge.base.paths import data_dir
from contextrender_bridge.client import AsyncContextRender, ContextRender
from contextrender_bridge.client.connection import TIMEOUT

URL = "http://contextrender.embedded"
TOKEN_DAYS = 3650
"""The token never leaves the process, and ends with it."""


@dataclass(frozen=True)
class Embedded:
    """A service in this process, and the local user's token for it."""

    app: Any
    token: str = field(repr=False)

    def client(self, *, timeout: float = TIMEOUT) -> ContextRender:
        """A synchronous client of it."""
        transport = LoopTransport(self.app)
        return ContextRender(URL, self.token, timeout=timeout, transport=transport)

    def async_client(self, *, timeout: float = TIMEOUT) -> AsyncContextRender:
        """An asynchronous client of it."""
        transport = httpx.ASGITransport(self.app)
        return AsyncContextRender(URL, self.token, timeout=timeout, transport=transport)


@contextmanager
def embedded(data: Path | str | None = None) -> Iterator[Embedded]:
    """The service over `data` (the folder of `contextrender serve`, unless given).

    Raises CommandError when the folder cannot be made or written to, and without the
    server's packages.
    """
    if importlib.util.find_spec("jaclang") is None:
        raise CommandError(f"embedded() needs the server: {how_to_serve()}.")
    with ExitStack() as opened:
        with _no_root_logging():
            from contextrender_bridge.server.process.loading import (
                load_ahead,
                telling_why_it_is_slow,
            )

            with telling_why_it_is_slow():
                from contextrender_bridge.server.app import build_app

                app = build_app(Path(data) if data else data_dir())
                service = app.state.service
                opened.callback(service.close)
                load_ahead()
        yield Embedded(app, service.accounts.local_token(days=TOKEN_DAYS))


@asynccontextmanager
async def embedded_async(data: Path | str | None = None) -> AsyncIterator[AsyncContextRender]:
    """A client of the service over `data`, in this process."""
    with embedded(data) as service:
        async with service.async_client() as client:
            yield client


class LoopTransport(httpx.BaseTransport):
    """Runs an ASGI app for a synchronous client, on an event loop in a thread of its own."""

    def __init__(self, app: Any) -> None:
        self._asgi = httpx.ASGITransport(app)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The app's answer, whole."""
        request.read()
        answer = asyncio.run_coroutine_threadsafe(self._answer(request), self._loop)
        try:
            return answer.result(request.extensions.get("timeout", {}).get("read"))
        except FutureTimeout:
            answer.cancel()
            raise httpx.ReadTimeout("no answer in time", request=request) from None

    def close(self) -> None:
        """Gives up what is not answered yet, and stops the thread."""
        asyncio.run_coroutine_threadsafe(self._give_up(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _give_up(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        response = await self._asgi.handle_async_request(request)
        content = await response.aread()
        return httpx.Response(response.status_code, headers=response.headers.raw, content=content)


@contextmanager
def _no_root_logging() -> Iterator[None]:
    """jaclang's import sets up root logging where there is none: a line for each call, here."""
    root, silence = logging.getLogger(), logging.NullHandler()
    root.addHandler(silence)
    try:
        yield
    finally:
        root.removeHandler(silence)
