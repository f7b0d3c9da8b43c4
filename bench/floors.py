"""Measures the lower bound of a render's time: arithmetic, token counting and a synced write.

It is measured between the renders of the same run, so that other load affects both alike.
"""

import sqlite3
from pathlib import Path
from typing import Final

import numpy as np
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.call.settings import DEFAULT_BUDGET
from contextrender_bridge.engine.text.tokens import DEFAULT_ENCODING, counter_for

from bench.figures import Times

DIMENSIONS: Final = 256
ROW_BYTES: Final = 12_000
"""The approximate size of the rows of one call and its result."""


class Floors:
    """The lower bounds for one number of results."""

    def __init__(self, results: int, folder: Path) -> None:
        random = np.random.default_rng(results)
        vectors = random.normal(size=(results, DIMENSIONS)).astype(np.float32)
        self._vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        self._ages = np.arange(results, 0, -1, dtype=np.float64)
        self._reuse = random.gamma(1.0, 1.0, results)
        self._tokens = random.integers(500, 900, results)
        self._codec = counter_for(None)
        assert self._codec.encoding == DEFAULT_ENCODING
        self._database = sqlite3.connect(folder / f"floor-{results}.db", isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute("CREATE TABLE IF NOT EXISTS written (data BLOB)")
        self._row_bytes = random.bytes(ROW_BYTES)
        self.arithmetic, self.counting, self.disk = Times(), Times(), Times()

    def measure(self, new_messages: list[Json]) -> None:
        """Measure each of the three steps once, as for a render with these new messages."""
        self.arithmetic.measure(self._select)
        self.counting.measure(lambda: sum(map(self._codec.message, new_messages)))
        self.disk.measure(self._write)

    def milliseconds(self) -> float:
        """Return the lower bound: the sum of the median times of the three steps."""
        return (
            self.arithmetic.milliseconds() + self.counting.milliseconds() + self.disk.milliseconds()
        )

    def close(self) -> None:
        self._database.close()

    def _select(self) -> list[int]:
        """Compute the scores and select greedily by the method's formulas, and do nothing else."""
        relevance = np.maximum(self._vectors @ self._vectors[0], 0)
        usefulness = np.exp(-0.3 * self._ages) + 1 - np.exp(-0.2 * self._reuse) + relevance
        redundancy = np.zeros(len(usefulness))
        remaining_tokens, selected = DEFAULT_BUDGET, list[int]()
        can_be_selected = self._tokens <= remaining_tokens
        while can_be_selected.any():
            scores = np.where(can_be_selected, usefulness - 0.5 * redundancy, -np.inf)
            best = int(np.argmax(scores))
            selected.append(best)
            remaining_tokens -= int(self._tokens[best])
            can_be_selected[best] = False
            can_be_selected &= self._tokens <= remaining_tokens
            np.maximum(redundancy, self._vectors @ self._vectors[best], out=redundancy)
        return selected

    def _write(self) -> None:
        self._database.execute("INSERT INTO written VALUES (?)", (self._row_bytes,))
