"""An app for a store that cannot be opened yet: it answers 503 with the reason, and retries."""

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from contextrender_bridge.base.errors import CommandError, ContextRenderError, NotReady, NotWritable
from contextrender_bridge.local_service import NOT_READY
from contextrender_bridge.request_guards import Guard
from contextrender_bridge.server.http.bodies import json_response
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route

RETRY_SECONDS: Final = 2.0
STORE_ERRORS = (ContextRenderError, NotWritable, OSError, sqlite3.Error)


class RecoveringApp:
    """The ASGI app that `build` returns. While `build` fails, it answers 503.

    `on_open` is called if the first attempt to build the app fails and a later one succeeds.
    """

    def __init__(self, build: Callable[[], Starlette], on_open: Callable[[], None]) -> None:
        """Try to build the app.

        If the store fails, only keep the reason. The retries begin when the server has started.
        Raise CommandError if the configuration is wrong.
        """
        self._build, self._on_open = build, on_open
        self._is_ending = threading.Event()
        self._reason = ""
        """The sentence of the last failure."""
        self.app: Starlette | None = None
        self._unready_app = _unready_app(lambda: self._reason)
        self._try_to_build()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass requests to the app, or to a substitute that answers 503 until the app is built."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        else:
            await (self.app or self._unready_app)(scope, receive, send)

    def token(self, current_token: str) -> str:
        """Return the local user's token. Raise NotReady while the app is not built.

        Return `current_token` itself while it is valid and not due for renewal.
        """
        if self.app is None:
            raise NotReady(self._reason)
        return str(self.app.state.service.accounts.local_token(current_token))

    async def _run_lifespan(self, receive: Any, send: Any) -> None:
        """Answer the startup event at once, and run the app's background tasks until shutdown.

        The server accepts requests after the answer, even if the app is not built yet.
        """
        await receive()
        shutdown = asyncio.Event()
        background = asyncio.create_task(self._run_background_tasks(shutdown))
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._is_ending.set()
        shutdown.set()
        await background
        await send({"type": "lifespan.shutdown.complete"})

    async def _run_background_tasks(self, shutdown: asyncio.Event) -> None:
        """Wait until the app is built; then run its background tasks until `shutdown`."""
        await asyncio.to_thread(self._retry_until_open)
        if self.app is not None:
            async with self.app.router.lifespan_context(self.app):
                await shutdown.wait()

    def _retry_until_open(self) -> None:
        """Try to build the app until it succeeds or the server ends. Then call `on_open`.

        Do nothing if the app was built at the first attempt.
        """
        if self.app is not None:
            return
        while self.app is None and not self._is_ending.wait(RETRY_SECONDS):
            try:
                self._try_to_build()
            except CommandError as refusal:  # The server runs already, so keep trying.
                self._reason = f"{refusal}"
        if self.app is not None:
            with suppress(Exception):
                self._on_open()

    def _try_to_build(self) -> None:
        """Try to build the app. If the store fails, keep the reason, and print it if it is new."""
        try:
            self.app = self._build()
        except STORE_ERRORS as error:
            reason = _sentence(error)
            if reason != self._reason:
                print(f"{NOT_READY}{reason}", file=sys.stderr, flush=True)
            self._reason = reason


def _sentence(error: BaseException) -> str:
    """Return the sentence that clients get for one of the STORE_ERRORS."""
    if isinstance(error, ContextRenderError):
        return error.message
    if isinstance(error, NotWritable):
        return f"{error}"[:1].upper() + f"{error}"[1:]
    if isinstance(error, OSError):
        return f"The data folder cannot be used: {error.strerror}."
    return "The store's file is damaged or does not answer."


def _unready_app(reason: Callable[[], str]) -> Starlette:
    """Return an app that answers health checks of the process, and 503 to all other requests."""

    async def alive(_: Request) -> Any:
        """Answer that the process runs."""
        return json_response(b'{"status":"ok"}')

    async def unready(_: Request, __: Exception) -> Any:
        """Raise the error 503 with the reason, for every path without a route."""
        raise NotReady(reason())

    routes = [Route(path, alive, methods=["GET"]) for path in ("/healthz", "/healthz/live")]
    guards = [Middleware(Guard)]
    return Starlette(routes=routes, middleware=guards, exception_handlers={HTTPException: unready})
