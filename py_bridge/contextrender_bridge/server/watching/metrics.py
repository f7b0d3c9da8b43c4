"""What an operator watches, for Prometheus: `GET /metrics`. Numbers and names of ours, no contents.

Answered on loopback to programs of this machine; from elsewhere only to the local user's token.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from contextrender_bridge.base.model_table import model_row
from contextrender_bridge.engine.call.usage_totals import CallTotals, add_rows
from contextrender_bridge.server.watching.requests import Requests
from contextrender_bridge.sessions.caches import CACHES
from contextrender_bridge.sessions.user_rows import all_usage_totals
from contextrender_bridge.store.base import Store
from contextrender_bridge.store.writes import StoreUnavailable
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.values import MutexValue, ValueClass

OTHER = "other"
"""Callers name models as they like: those that LiteLLM's table does not know count as one."""
COUNTED_SECONDS = 60.0
"""How long the sums are kept."""


class StoredCalls(Collector):
    """Sums over the stored calls of all users, by model, policy and delivery."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last_sums: tuple[float, dict[tuple[str, str, str], CallTotals]] = (
            -COUNTED_SECONDS,
            {},
        )

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return calls and prompt tokens of stored sessions, read at most once a minute."""
        names = ["model", "policy", "delivery"]
        calls = GaugeMetricFamily("contextrender_stored_calls", "Answered calls", labels=names)
        tokens = GaugeMetricFamily(
            "contextrender_stored_prompt_tokens",
            "Prompt tokens of answered calls: of whole histories, and sent",
            labels=[*names, "side"],
        )
        for key, sums in self._sums().items():
            calls.add_metric(key, sums.calls)
            tokens.add_metric([*key, "full"], sums.capped)
            tokens.add_metric([*key, "sent"], sums.prompt)
        yield from (calls, tokens)

    def _sums(self) -> dict[tuple[str, str, str], CallTotals]:
        """Return the sums, as last read while the store does not answer."""
        now = time.monotonic()
        if now - self._last_sums[0] >= COUNTED_SECONDS:
            with suppress(StoreUnavailable):
                self._last_sums = (now, self._read())
        return self._last_sums[1]

    def _read(self) -> dict[tuple[str, str, str], CallTotals]:
        sums_by_key = defaultdict[tuple[str, str, str], CallTotals](CallTotals)
        for (_, _, *key), sums in add_rows(all_usage_totals(self._store)).items():
            model, policy, delivery = key
            labels = (model if model_row(model) else OTHER, policy, delivery)
            sums_by_key[labels] = sums_by_key[labels].plus(sums)
        return sums_by_key


class StoredBytes(Collector):
    """The bytes of a store, looked up when asked, and not where it does not answer."""

    def __init__(self, store: Store, data: Path) -> None:
        self._store, self._data = store, data

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Return the figure's name, because registering must not ask the store."""
        yield GaugeMetricFamily("contextrender_stored_bytes", "Size of the store")

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the size of the store, if it answers."""
        (figure,) = self.describe()
        with suppress(StoreUnavailable, OSError):
            size = self._store.size()
            if size is None:
                size = sum(file.stat().st_size for file in self._data.glob("store.db*"))
            figure.add_metric([], size)
        yield figure


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The figures of one service."""

    def __init__(self, store: Store, data: Path, walkers: Iterable[str]) -> None:
        """Count the requests of `walkers`, and the bytes of the store in `data` or elsewhere."""
        self._registry = CollectorRegistry()
        self.requests = Requests(self._registry, walkers)
        self._store_collectors = [StoredBytes(store, data), StoredCalls(store)]
        for collector in self._store_collectors:
            self._registry.register(collector)
        counter = partial(Counter, registry=self._registry)
        self.deletions = counter(
            "contextrender_deleted_sessions", "Sessions that retention deleted", ["reason"]
        )
        text = "Model calls whose history the mounted proxy sent unchanged"
        self.fail_open = counter("contextrender_fail_open", text, ["reason"])
        text = "Attempts that another request overtook: they are made again"
        self.conflicts = counter("contextrender_conflicts", text)
        text = "Writes that the store did not take"
        self.refused_writes = counter("contextrender_commit_failures", text)
        self.caches = Gauge(
            "contextrender_cache_bytes",
            "Caches of sessions and texts in process: what they hold, and their limit",
            ["cache", "state"],
            registry=self._registry,
            multiprocess_mode="livesum",
        )

    def tell_caches(self) -> None:
        """Note what this process's caches hold; each worker notes its own, now and then."""
        for name, caches in CACHES.items():
            self.caches.labels(name, "used").set(sum(cache.nbytes for cache in caches))
            self.caches.labels(name, "limit").set(sum(cache.limit for cache in caches))

    def page(self) -> bytes:
        """Return all figures as Prometheus reads them; of several workers, those of all."""
        self.tell_caches()
        if ValueClass is MutexValue:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        for collector in self._store_collectors:
            registry.register(collector)
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
