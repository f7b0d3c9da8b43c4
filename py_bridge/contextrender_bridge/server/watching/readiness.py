"""Routes for monitoring: `/healthz`, `/healthz/ready` and `/metrics`.

A server is not ready if its store accepts no writes or its disk is nearly full. A failing embedder
is only reported, because a provider's outage must not stop every server. Requests are then served
without relevance.
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
from contextrender_bridge.request_guards import is_loopback
from contextrender_bridge.server.http.bodies import encode, json_response, refusal
from contextrender_bridge.server.watching.metrics import CONTENT_TYPE, Metrics
from contextrender_bridge.store.base import Store
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

PROBE_SECONDS: Final = 5.0
"""The seconds for which the result of one probe of the store is used."""
ANSWER_SECONDS: Final = 5.0
"""The time within which the store must answer a probe."""


class Readiness:
    """The routes for monitoring one server, and the checks of its store, disk and embedder.

    Only programs of this machine and the local user get the metrics and the reason of a failure.
    """

    def __init__(
        self,
        store: Store,
        data: Path,
        settings: Settings,
        metrics: Metrics,
        is_from_local_user: Callable[[Request], Awaitable[bool]],
    ) -> None:
        """Serve `metrics`, and the state of the store and of the disk of the folder `data`.

        `is_from_local_user` returns whether a request has the local user's token.
        """
        self._store, self._data, self._settings = store, data, settings
        self._metrics, self._is_from_local_user = metrics, is_from_local_user
        # With one thread, requests do not start more and more probes of a store that hangs.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ready")
        self._probe: Future[None] | None = None
        self._probed_at = float("-inf")

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route("/healthz", self.live, methods=["GET"]),
            Route("/healthz/live", self.live, methods=["GET"]),
            Route("/healthz/ready", self.ready, methods=["GET"]),
            Route("/metrics", self.metrics_page, methods=["GET"]),
        ]

    async def check(self) -> dict[str, Any]:
        """Return the state of disk, store and embedder. Raise NotReady if disk or store fail."""
        free = self._check_disk()
        await self._check_store()
        embedder = load_embedder(self._settings.embed_model)
        return {
            "status": "ready",
            "free_mb": free // 2**20,
            "embedder": embedder.name,
            "embedder_fails": bool(getattr(embedder, "is_failing", False)),
        }

    def close(self) -> None:
        """Stop without waiting for a running probe; cancel one that has not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def live(self, _: Request) -> Response:
        """Answer that the process runs."""
        return json_response(b'{"status":"ok"}')

    async def ready(self, request: Request) -> Response:
        """Answer with the state, or with 503 and a sentence while requests cannot be served."""
        try:
            state = await self.check()
        except NotReady:
            if await self._may_see_details(request):
                raise
            raise NotReady("The server is not ready.") from None
        return json_response(encode(state))

    async def metrics_page(self, request: Request) -> Response:
        """Answer with the metrics."""
        if not await self._may_see_details(request):
            raise Unauthorized("From elsewhere, send the local user's token.")
        page = await asyncio.to_thread(self._metrics.page)
        return Response(page, media_type=CONTENT_TYPE)

    def _check_disk(self) -> int:
        """Return the free bytes of the data folder's disk.

        Raise NotReady if the folder cannot be read, or if the setting requires more free space.
        """
        try:
            free = shutil.disk_usage(self._data).free
        except OSError as failure:
            raise NotReady(f"The data folder cannot be read: {failure.strerror}.") from failure
        if free < self._settings.min_free_disk_mb * 2**20:
            raise NotReady(
                f"The data folder's disk has {free / 2**20:.1f} MB free. "
                f"CONTEXTRENDER_MIN_FREE_DISK_MB requires {self._settings.min_free_disk_mb}."
            )
        return free

    async def _check_store(self) -> None:
        """Check the store by a probe, which writes a row, unless one has succeeded recently.

        If a probe runs already, wait for that probe. Raise NotReady if the probe fails or takes
        longer than ANSWER_SECONDS.
        """
        if time.monotonic() - self._probed_at < PROBE_SECONDS:
            return
        if self._probe is None:
            self._probe = self._thread.submit(self._store.probe)
        probe = self._probe
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await asyncio.shield(asyncio.wrap_future(probe))
        except TimeoutError:
            # The probe continues, and the next request waits for it.
            raise NotReady(
                f"The store does not answer within {ANSWER_SECONDS:g} seconds."
            ) from None
        except Exception as failure:
            self._probe = None
            raise NotReady(refusal(failure, "ready").message) from None
        self._probe = None
        self._probed_at = time.monotonic()

    async def _may_see_details(self, request: Request) -> bool:
        """Return whether a request comes over loopback or has the local user's token."""
        is_local = request.client is not None and is_loopback(request.client.host)
        return is_local or await self._is_from_local_user(request)
