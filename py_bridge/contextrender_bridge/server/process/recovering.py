"""A server whose store cannot be opened listens nevertheless, says why not, and tries again."""

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from contextrender_bridge.base.errors import CommandError, ContextRenderError, NotReady, NotWritable
from contextrender_bridge.request_guards import Guard
from contextrender_bridge.server.http.bodies import json_response
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route

AGAIN_SECONDS: Final = 2.0
STORE_TROUBLE = (ContextRenderError, NotWritable, OSError, sqlite3.Error)


class Recovering:
    """The ASGI app that `build` makes; until it can, one that answers 503 with a sentence.

    `on_open` is called where the app comes later than that.
    """

    def __init__(self, build: Callable[[], Starlette], on_open: Callable[[], None]) -> None:
        self._build, self._on_open = build, on_open
        self._ended = threading.Event()
        self._says = ""
        self.app: Starlette | None = None
        self._waiting_app = _waiting_app(lambda: self._says)
        self._try_to_open()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass everything on to the app, or to its substitute while there is none."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await (self.app or self._waiting_app)(scope, receive, send)

    def token(self, current_token: str) -> str:
        """Return the local user's token. Raise NotReady while there is no store."""
        if self.app is None:
            raise NotReady(self._says)
        return str(self.app.state.service.accounts.local_token(current_token))

    async def _live(self, receive: Any, send: Any) -> None:
        """Try to open the app in a thread until shutdown, then run what the app does by itself."""
        await receive()
        ended = asyncio.Event()
        living = asyncio.create_task(self._run_app_until(ended))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._ended.set()
        ended.set()
        await living
        await send({"type": "lifespan.shutdown.complete"})

    async def _run_app_until(self, ended: asyncio.Event) -> None:
        """Open the app, in a thread that retries; then run its background tasks until `ended`."""
        await asyncio.to_thread(self._retry_until_open)
        if self.app is not None:
            async with self.app.router.lifespan_context(self.app):
                await ended.wait()

    def _retry_until_open(self) -> None:
        """Try until the app opens or the server ends. Call `on_open` if it was not open at once."""
        late = self.app is None
        while self.app is None and not self._ended.wait(AGAIN_SECONDS):
            try:
                self._try_to_open()
            except CommandError as refusal:  # at the start it would have ended the command
                self._says = f"{refusal}"
        if late and self.app is not None:
            with suppress(Exception):
                self._on_open()

    def _try_to_open(self) -> None:
        try:
            self.app = self._build()
        except STORE_TROUBLE as trouble:
            sentence = _sentence(trouble)
            if sentence != self._says:
                print(
                    f"contextrender: not ready, trying on: {sentence}", file=sys.stderr, flush=True
                )
            self._says = sentence


def _sentence(trouble: BaseException) -> str:
    if isinstance(trouble, ContextRenderError):
        return trouble.message
    if isinstance(trouble, NotWritable):
        return f"{trouble}"[:1].upper() + f"{trouble}"[1:]
    if isinstance(trouble, OSError):
        return f"The data folder cannot be used: {trouble.strerror}."
    return "The store's file is damaged or does not answer."


def _waiting_app(says: Callable[[], str]) -> Starlette:
    async def alive(_: Request) -> Any:
        return json_response(b'{"status":"ok"}')

    async def unready(_: Request, __: Exception) -> Any:
        raise NotReady(says())

    routes = [Route(path, alive, methods=["GET"]) for path in ("/healthz", "/healthz/live")]
    guards = [Middleware(Guard)]
    return Starlette(routes=routes, middleware=guards, exception_handlers={HTTPException: unready})
