"""Routes for monitoring: `/healthz`, `/healthz/ready` and `/metrics`.

A server is not ready if its store takes no write or its disk is nearly full. A failing embedder is
reported, but requests are served without relevance: a provider's outage must not stop every server.
"""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from contextrender_bridge.base.errors import NotReady, Unauthorized
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.engine.models.embeddings import load_embedder
from contextrender_bridge.server.http.bodies import encode, json_response, refusal
from contextrender_bridge.server.watching.metrics import CONTENT_TYPE, Metrics
from contextrender_bridge.store.base import Store
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

WRITE_SECONDS: Final = 5.0
"""How long the answer to one write counts."""
ANSWER_SECONDS: Final = 5.0


class Readiness:
    """The state of one server's store, disk and embedder.

    Only programs of this machine and the local user see the figures and why it is not ready.
    """

    def __init__(
        self,
        store: Store,
        data: Path,
        settings: Settings,
        metrics: Metrics,
        is_local_users: Callable[[Request], Awaitable[bool]],
    ) -> None:
        self._store, self._data, self._settings = store, data, settings
        self._metrics, self._is_local_users = metrics, is_local_users
        # One thread: a store that hangs must not take a second one with every question.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ready")
        self._writing: Future[None] | None = None
        self._written_at = float("-inf")

    def routes(self) -> list[BaseRoute]:
        """Return the routes, which only read."""
        return [
            Route("/healthz", self.live, methods=["GET"]),
            Route("/healthz/live", self.live, methods=["GET"]),
            Route("/healthz/ready", self.ready, methods=["GET"]),
            Route("/metrics", self.figures, methods=["GET"]),
        ]

    async def look(self) -> dict[str, Any]:
        """Return the state of the parts. Raise NotReady with a sentence if one is not ready."""
        free = self._check_disk()
        await self._check_store()
        embedder = load_embedder(self._settings.embed_model)
        return {
            "status": "ready",
            "free_mb": free // 2**20,
            "embedder": embedder.name,
            "embedder_fails": bool(getattr(embedder, "fails", False)),
        }

    def close(self) -> None:
        """Ask no more questions."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def live(self, _: Request) -> Response:
        """Answer that the process lives."""
        return json_response(b'{"status":"ok"}')

    async def ready(self, request: Request) -> Response:
        """Answer 503 with a sentence while requests cannot be served."""
        try:
            state = await self.look()
        except NotReady as trouble:
            may_know = await self._may_know(request)
            raise trouble if may_know else NotReady("The server is not ready.") from None
        return json_response(encode(state))

    async def figures(self, request: Request) -> Response:
        """Answer Prometheus."""
        if not await self._may_know(request):
            raise Unauthorized("From elsewhere, send the local user's token.")
        page = await asyncio.to_thread(self._metrics.page)
        return Response(page, media_type=CONTENT_TYPE)

    def _check_disk(self) -> int:
        try:
            free = shutil.disk_usage(self._data).free
        except OSError as failure:
            raise NotReady(f"The data folder cannot be read: {failure.strerror}.") from failure
        if free < self._settings.min_free_disk_mb * 2**20:
            raise NotReady(
                f"The data folder's disk has {free / 2**20:.1f} MB left, and "
                f"{self._settings.min_free_disk_mb} is the least that is set (MIN_FREE_MB)."
            )
        return free

    async def _check_store(self) -> None:
        if time.monotonic() - self._written_at < WRITE_SECONDS:
            return
        if self._writing is None:
            self._writing = self._thread.submit(self._store.probe)
        writing = self._writing
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await asyncio.shield(asyncio.wrap_future(writing))
        except TimeoutError:
            raise NotReady(
                f"The store does not answer within {ANSWER_SECONDS:g} seconds."
            ) from None
        except Exception as failure:
            self._writing = None
            raise NotReady(refusal(failure, "ready").message) from None
        self._writing = None
        self._written_at = time.monotonic()

    async def _may_know(self, request: Request) -> bool:
        host = request.client.host if request.client else ""
        loopback = host.startswith("127.") or host == "::1"
        return loopback or await self._is_local_users(request)
