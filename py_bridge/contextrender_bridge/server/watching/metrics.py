"""Metrics for Prometheus at `GET /metrics`. They have no contents of sessions.

Programs of this machine may read them over loopback, others only with the local user's token.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from contextrender_bridge.base.model_table import model_row
from contextrender_bridge.engine.call.usage_totals import CallTotals, add_rows
from contextrender_bridge.runtime.caches import CACHES
from contextrender_bridge.sessions.user_rows import all_usage_totals
from contextrender_bridge.store.base import Store
from contextrender_bridge.store.writes import StoreUnavailable
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.values import MutexValue, ValueClass

OTHER_MODEL = "other"
"""The label for all models that LiteLLM's table lacks, because callers may send any name."""
CACHE_SECONDS = 60.0
"""The seconds for which the sums over stored calls are cached."""


type Labels = tuple[str, str, str]
"""Model, policy, delivery."""


class StoredCalls(Collector):
    """The metrics of the stored calls of all users, by model, policy and delivery."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read_at = -CACHE_SECONDS
        self._sums_by_labels: dict[Labels, CallTotals] = {}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the calls and prompt tokens of stored sessions, read at most once a minute."""
        names = ["model", "policy", "delivery"]
        calls = GaugeMetricFamily("contextrender_stored_calls", "Answered calls", labels=names)
        tokens = GaugeMetricFamily(
            "contextrender_stored_prompt_tokens",
            "Prompt tokens of answered calls: of whole histories, and sent",
            labels=[*names, "side"],
        )
        for key, sums in self._sums().items():
            calls.add_metric(key, sums.calls)
            # A full history counts at most the model's window: a larger one could not be sent.
            tokens.add_metric([*key, "full"], sums.full_capped)
            tokens.add_metric([*key, "sent"], sums.prompt)
        yield from (calls, tokens)

    def _sums(self) -> dict[Labels, CallTotals]:
        """Return the sums by labels, from the cache unless the cached sums are too old.

        Then read them from the store. If the store does not answer, return the cached sums.
        """
        now = time.monotonic()
        if now - self._read_at >= CACHE_SECONDS:
            with suppress(StoreUnavailable):
                self._sums_by_labels = self._read_sums()
                self._read_at = now
        return self._sums_by_labels

    def _read_sums(self) -> dict[Labels, CallTotals]:
        """Return the sums over the calls of all users, by model, policy and delivery.

        Models that are not in LiteLLM's table count together as `OTHER_MODEL`.
        """
        sums_by_labels = defaultdict[Labels, CallTotals](CallTotals)
        sums_by_key = add_rows(all_usage_totals(self._store))
        for (_, _, model, policy, delivery), sums in sums_by_key.items():
            model_label = model if model_row(model) else OTHER_MODEL
            labels = (model_label, policy, delivery)
            sums_by_labels[labels] = sums_by_labels[labels].plus(sums)
        return sums_by_labels


class StoredBytes(Collector):
    """The metric of the store's size, which is measured for each request."""

    def __init__(self, store: Store, data: Path) -> None:
        self._store, self._data = store, data

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metric without a value, so that its registration does not read the store."""
        yield GaugeMetricFamily("contextrender_stored_bytes", "Size of the store")

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the size of the store. The metric has no value if the store does not answer."""
        (metric,) = self.describe()
        with suppress(StoreUnavailable, OSError):
            size = self._store.size()
            # SQLite does not report it, so measure the files.
            if size is None:
                size = sum(file.stat().st_size for file in self._data.glob("store.db*"))
            metric.add_metric([], size)
        yield metric


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one service."""

    def __init__(self, store: Store, data: Path) -> None:
        """Create the metrics, except those of requests, which the front adds to `registry`.

        `data` is the folder with the file of a SQLite store, which is measured.
        """
        self.registry = CollectorRegistry()
        self._store_collectors = [StoredBytes(store, data), StoredCalls(store)]
        for collector in self._store_collectors:
            self.registry.register(collector)
        # The other parts of the service increment these counters.
        counter = partial(Counter, registry=self.registry)
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
            registry=self.registry,
            multiprocess_mode="livesum",
        )

    def record_caches(self) -> None:
        """Record the sizes of this process's caches. Every worker does so periodically."""
        for name, caches in CACHES.items():
            self.caches.labels(name, "used").set(sum(cache.nbytes for cache in caches))
            self.caches.labels(name, "limit").set(sum(cache.limit for cache in caches))

    def page(self) -> bytes:
        """Return the metrics of all workers in Prometheus's format."""
        self.record_caches()
        if ValueClass is MutexValue:  # There is only this process.
            return generate_latest(self.registry)
        # Add up the files in which all workers count, and add the metrics of the store.
        registry = CollectorRegistry()
        for collector in self._store_collectors:
            registry.register(collector)
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
