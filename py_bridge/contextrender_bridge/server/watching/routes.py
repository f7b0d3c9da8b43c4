"""Routes for monitoring: alive, ready, metrics."""

import asyncio
from collections.abc import Awaitable, Callable

from contextrender_bridge.base.errors import NotReady, Unauthorized
from contextrender_bridge.server.http.replies import encode, error_response, json_response
from contextrender_bridge.server.watching.metrics import CONTENT_TYPE, Metrics, is_of_this_machine
from contextrender_bridge.server.watching.readiness import Readiness
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route


class WatchingRoutes:
    """Figures, and why a server is not ready: for this machine's programs and the local user."""

    def __init__(
        self,
        readiness: Readiness,
        metrics: Metrics,
        is_local_users: Callable[[Request], Awaitable[bool]],
    ) -> None:
        """Routes of one service."""
        self._readiness = readiness
        self._metrics = metrics
        self._is_local_users = is_local_users

    def routes(self) -> list[BaseRoute]:
        """Read-only ones."""
        return [
            Route("/healthz", self.live, methods=["GET"]),
            Route("/healthz/live", self.live, methods=["GET"]),
            Route("/healthz/ready", self.ready, methods=["GET"]),
            Route("/metrics", self.figures, methods=["GET"]),
        ]

    async def live(self, _: Request) -> Response:
        """The process answers."""
        return json_response(b'{"status":"ok"}')

    async def ready(self, request: Request) -> Response:
        """503 with a sentence while requests cannot be served."""
        try:
            found = await self._readiness.look()
        except NotReady as trouble:
            known = await self._may_know(request)
            return error_response(trouble if known else NotReady("The server is not ready."))
        return json_response(encode(found))

    async def figures(self, request: Request) -> Response:
        """For Prometheus."""
        if not await self._may_know(request):
            raise Unauthorized("From elsewhere, send the local user's token.")
        page = await asyncio.to_thread(self._metrics.page)
        return Response(page, media_type=CONTENT_TYPE)

    async def _may_know(self, request: Request) -> bool:
        return is_of_this_machine(request.scope) or await self._is_local_users(request)
