"""What the store holds, for `GET /metrics`: its bytes and the sums of its calls."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from contextrender_bridge.base.model_table import model_row
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from engine.call.copied import counted_once
from engine.call.ledger import Sums
from engine.lookback.saved import add_rows
from graph.sessions.owned import all_spent
from graph.store.base import Store
from graph.store.writes import StoreUnavailable

OTHER = "other"
"""Callers name models as they like: those that LiteLLM's table does not know count as one."""
COUNTED_SECONDS = 60.0
"""How long the sums are kept."""


class Counted(Collector):
    """Sums over the stored calls of all users, by model, policy and what was sent."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: tuple[float, dict[tuple[str, str, str], Sums]] = (-COUNTED_SECONDS, {})

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Calls and prompt tokens, less where sessions are deleted; read at most once a minute."""
        names = ["model", "policy", "sent"]
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

    def _sums(self) -> dict[tuple[str, str, str], Sums]:
        """As last read, while the store does not answer."""
        now = time.monotonic()
        if now - self._known[0] >= COUNTED_SECONDS:
            with suppress(StoreUnavailable):
                self._known = (now, self._read())
        return self._known[1]

    def _read(self) -> dict[tuple[str, str, str], Sums]:
        found: dict[tuple[str, str, str], Sums] = {}
        for (_, _, *key), sums in add_rows(counted_once(all_spent(self._store))).items():
            model, policy, sent = key
            model = model if model_row(model) else OTHER
            known = found.get((model, policy, sent))
            found[model, policy, sent] = known.plus(sums) if known else sums
        return found


class StoredBytes(Collector):
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
