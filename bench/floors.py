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
        """Measure each step once for the new messages of a render."""
        self.arithmetic.measure(self._select)
        self.counting.measure(lambda: sum(map(self._codec.message, new_messages)))
        self.disk.measure(self._write)

    def milliseconds(self) -> float:
        return (
            self.arithmetic.milliseconds() + self.counting.milliseconds() + self.disk.milliseconds()
        )

    def close(self) -> None:
        self._database.close()

    def _select(self) -> list[int]:
        """Scores and greedy selection by the method's formulas, and nothing else."""
        relevance = np.maximum(self._vectors @ self._vectors[0], 0)
        useful = np.exp(-0.3 * self._ages) + 1 - np.exp(-0.2 * self._reuse) + relevance
        redundancy = np.zeros(len(useful))
        remaining_tokens, selected = DEFAULT_BUDGET, list[int]()
        available = self._tokens <= remaining_tokens
        while available.any():
            best = int(np.argmax(np.where(available, useful - 0.5 * redundancy, -np.inf)))
            selected.append(best)
            remaining_tokens -= int(self._tokens[best])
            available[best] = False
            available &= self._tokens <= remaining_tokens
            np.maximum(redundancy, self._vectors @ self._vectors[best], out=redundancy)
        return selected

    def _write(self) -> None:
        self._database.execute("INSERT INTO written VALUES (?)", (self._row_bytes,))
