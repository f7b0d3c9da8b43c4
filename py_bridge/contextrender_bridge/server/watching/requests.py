"""The middleware that gives every request an id, a span, metrics and a line in the log."""

import logging
import re
import time
from collections.abc import Iterable
from typing import Any, Final
from uuid import uuid4

from contextrender_bridge.base.spans import span
from contextrender_bridge.server.watching.logs import REQUEST, RequestInfo, log
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REQUEST_ID: Final = "x-request-id"
VALID_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
BUCKET_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
ROUTES: Final = frozenset({"user", "healthz", "metrics", "console", "v1", "s"})
DEBUG_ROUTES: Final = frozenset({"healthz", "metrics"})
"""The routes of health checks, which are logged only at level DEBUG."""


class RequestMetrics:
    """The outermost middleware of a service, and the metrics that it counts."""

    def __init__(self, registry: CollectorRegistry, walkers: Iterable[str]) -> None:
        """Create the metrics in `registry`.

        The name of each of the `walkers` is a route in the metrics; other names are `unknown`.
        """
        self._walkers = frozenset(walkers)
        self._calls = Counter(
            "contextrender_calls",
            "Requests answered",
            ["route", "policy", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "contextrender_call_seconds",
            "Time to answer",
            ["route", "policy"],
            buckets=BUCKET_SECONDS,
            registry=registry,
        )
        self._tokens = Counter(
            "contextrender_render_tokens",
            "Tokens of histories before and after rendering",
            ["policy", "side"],
            registry=registry,
        )
        self._in_flight = Gauge(
            "contextrender_calls_in_flight",
            "Requests being answered",
            registry=registry,
            multiprocess_mode="livesum",
        )

    def middleware(self, app: ASGIApp) -> ASGIApp:
        """Return `app` with an id, a span, metrics and a log line for every request."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            """Pass a request to `app`, and count, time and log it.

            The status in the metrics is 500 if `app` fails before its reply.
            """
            if scope["type"] != "http":  # For example, the events of startup and shutdown.
                await app(scope, receive, send)
                return
            # Set the current request, so that later code can add its user and policy.
            route, request = self._route_of(scope["path"]), RequestInfo(_id_of(scope))
            REQUEST.set(request)
            status, started = 500, time.perf_counter()

            async def send_with_id(message: Message) -> None:
                """Send a message. Note the status in the first one, and add the request's id."""
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                    MutableHeaders(scope=message).setdefault(REQUEST_ID, request.id)
                await send(message)

            # Pass the request on, in a span.
            self._in_flight.inc()
            try:
                with span(f"{scope['method']} {route}", scope["headers"]):
                    await app(scope, receive, send_with_id)
            finally:
                # Count and log the request, also after a failure.
                self._in_flight.dec()
                seconds = time.perf_counter() - started
                self._calls.labels(route, request.policy, str(status)).inc()
                self._seconds.labels(route, request.policy).observe(seconds)
                fields = {"route": route, "status": status, "ms": round(seconds * 1e3, 1)}
                level = logging.DEBUG if route in DEBUG_ROUTES else logging.INFO
                log.log(level, "request answered", extra=fields)

        return answer

    def count_rendered(self, walker: str, reports: list[Any]) -> None:
        """Count the tokens in the reports of `render`, and note the current request's policy.

        Ignore the reports of other walkers.
        """
        if walker != "render":
            return
        for view in reports:
            if (request := REQUEST.get()) is not None:
                request.policy = view.policy
            self._tokens.labels(view.policy, "before").inc(view.tokens_before)
            self._tokens.labels(view.policy, "after").inc(view.tokens_after)

    def _route_of(self, path: str) -> str:
        """Return the route of a path for metrics; `unknown` for all unknown paths."""
        first, _, name = path.strip("/").partition("/")
        if first == "walker":
            return name if name in self._walkers else "unknown"
        return first if first in ROUTES else "unknown"


def _id_of(scope: Scope) -> str:
    """Return the request's id from its header if it is valid, otherwise a new one."""
    request_id = Headers(scope=scope).get(REQUEST_ID, "")
    return request_id if VALID_ID.fullmatch(request_id) else uuid4().hex
