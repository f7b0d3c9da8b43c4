"""What an operator watches, for Prometheus: `GET /metrics`. Numbers and names of ours, no contents.

Answered on loopback to programs of this machine; from elsewhere only to the local user's token.
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.values import MutexValue, ValueClass
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contextrender_bridge.server.counted import Counted
from contextrender_bridge.server.logs import ASKED, Asked, log_request
from contextrender_bridge.spans import span, traceparent
from graph.runtime.caches import CACHES
from graph.runtime.store import Store
from graph.runtime.unit import StoreUnavailable

REQUEST_ID = "x-request-id"
FIT_FOR_AN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
CACHES_SECONDS = 1.0
RENDERS = ("render",)


class Metrics:
    """The figures of one service."""

    def __init__(self, store: Store, data: Path, walkers: Iterable[str]) -> None:
        """Stored bytes are those of the store, which is in `data` or elsewhere."""
        self._walkers = frozenset(walkers)
        self._registry = CollectorRegistry()
        self._stored = [_Stored(store, data), Counted(store)]
        for collector in self._stored:
            self._registry.register(collector)
        self.calls = Counter(
            "contextrender_calls", "Requests answered", ["route", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "contextrender_call_seconds",
            "Time to answer",
            ["route"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self.tokens = Counter(
            "contextrender_render_tokens",
            "Tokens of histories before and after rendering",
            ["policy", "side"],
            registry=self._registry,
        )
        self.collections = Counter(
            "contextrender_collected_sessions",
            "Sessions that retention deleted",
            ["why"],
            registry=self._registry,
        )
        self.fail_open = Counter(
            "contextrender_fail_open",
            "Model calls whose history the mounted proxy sent unchanged",
            ["reason"],
            registry=self._registry,
        )
        self.conflicts = Counter(
            "contextrender_conflicts",
            "Attempts that another request overtook: they are made again",
            registry=self._registry,
        )
        self.refused_writes = Counter(
            "contextrender_commit_failures",
            "Writes that the store did not take",
            registry=self._registry,
        )
        self.caches = Gauge(
            "contextrender_cache_bytes",
            "Caches of sessions and texts in process: what they hold, and their limit",
            ["cache", "side"],
            registry=self._registry,
            multiprocess_mode="livesum",
        )
        self._caches_told = float("-inf")
        self.in_flight = Gauge(
            "contextrender_calls_in_flight",
            "Requests being answered",
            registry=self._registry,
            multiprocess_mode="livesum",
        )
        self.handed_over = Counter(
            "contextrender_connections_handed_over",
            "Connections that went to the worker which their session prefers",
            registry=self._registry,
        )

    def collected(self, why: str) -> None:
        """Counts a session that retention deleted."""
        self.collections.labels(why).inc()

    def failed_open(self, reason: str) -> None:
        """Counts a history that went through unchanged."""
        self.fail_open.labels(reason).inc()

    def tell_caches(self) -> None:
        """Notes what this process's caches hold, at most once a second: each worker its own."""
        if (now := time.monotonic()) - self._caches_told < CACHES_SECONDS:
            return
        self._caches_told = now
        for name, caches in CACHES.items():
            self.caches.labels(name, "held").set(sum(cache.nbytes for cache in caches))
            self.caches.labels(name, "limit").set(sum(cache.limit for cache in caches))

    def page(self) -> bytes:
        """All figures as Prometheus reads them; of several workers, those of all."""
        self.tell_caches()
        if ValueClass is MutexValue:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        for collector in self._stored:
            registry.register(collector)
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    def rendered(self, walker: str, reports: list[Any]) -> None:
        """Counts the tokens of what a walker reported, where it rendered."""
        for view in reports if walker in RENDERS else ():
            self.tokens.labels(view.policy, "before").inc(view.tokens.before)
            self.tokens.labels(view.policy, "after").inc(view.tokens.after)

    def route_of(self, path: str) -> str:
        """A path's name among the figures: few, whatever callers make up."""
        first, _, rest = path.strip("/").partition("/")
        if first == "walker":
            return rest if rest in self._walkers else "unknown"
        return first if first in ("user", "healthz", "metrics", "console", "v1", "s") else "unknown"


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
            self._metrics.calls.labels(route, str(status)).inc()
            seconds = time.perf_counter() - started
            self._metrics.seconds.labels(route).observe(seconds)
            log_request(route, status, seconds)
            self._metrics.tell_caches()


def _id_of(scope: Scope) -> str:
    """The id that the caller gave the request, if it can be written anywhere; else a new one."""
    given = Headers(scope=scope).get(REQUEST_ID, "")
    return given if FIT_FOR_AN_ID.fullmatch(given) else uuid4().hex


def is_of_this_machine(scope: Mapping[str, Any]) -> bool:
    """Whether the request came over loopback."""
    host, *_ = scope.get("client") or ("",)
    return host.startswith("127.") or host == "::1"


class _Stored(Collector):
    """The bytes of a store, looked up when asked, and not where it does not answer."""

    def __init__(self, store: Store, data: Path) -> None:
        self._store, self._data = store, data

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Its name: registering must not ask the store."""
        yield GaugeMetricFamily("contextrender_stored_bytes", "Size of the store")

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The one figure."""
        (found,) = self.describe()
        with suppress(StoreUnavailable, OSError):
            size = self._store.size()
            if size is None:
                size = sum(one.stat().st_size for one in self._data.glob("store.db*"))
            found.add_metric([], size)
        yield found
