"""Every request counted, timed, logged and given an id."""

import re
import time
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contextrender_bridge.server.logs import ASKED, Asked, log_request
from contextrender_bridge.server.metrics import Metrics
from contextrender_bridge.spans import span, traceparent

REQUEST_ID = "x-request-id"
FIT_FOR_AN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Metered:
    """ASGI middleware: every request is counted and timed."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        """Counts into `metrics`."""
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, watching its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        route = self._metrics.route_of(scope["path"])
        asked = Asked(_id_of(scope))
        ASKED.set(asked)
        status = 500
        started = time.perf_counter()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).setdefault(REQUEST_ID, asked.id)
            await send(message)

        self._metrics.in_flight.inc()
        try:
            with span(f"{scope['method']} {route}", traceparent(scope["headers"])):
                await self._app(scope, receive, watched)
        finally:
            self._metrics.in_flight.dec()
            seconds = time.perf_counter() - started
            self._metrics.answered(route, asked.policy, status, seconds)
            log_request(route, status, seconds)
            self._metrics.tell_caches()


def _id_of(scope: Scope) -> str:
    """The id that the caller gave the request, if it can be written anywhere; else a new one."""
    given = Headers(scope=scope).get(REQUEST_ID, "")
    return given if FIT_FOR_AN_ID.fullmatch(given) else uuid4().hex
