"""Where the slowest calls come from: Python's garbage collection, the database's checkpoints."""

import gc
import time
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Final, Self

from times import Times

CHECKPOINTS: Final = slice(12, 16)
"""Bytes of the write-ahead log's header that change when it starts over after a checkpoint."""


class Pauses:
    """Watches calls in this process over one database."""

    def __init__(self, data: Path) -> None:
        self._log = data / "store.db-wal"
        self._started = 0.0
        self._collecting = 0.0
        self._full = 0
        self._seen = self._restarts()
        self._calls: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        gc.callbacks.append(self._collected)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        gc.callbacks.remove(self._collected)

    def begin(self) -> None:
        """A call follows."""
        self._collecting, self._full = 0.0, 0

    def end(self, seconds: float) -> None:
        """It is over, and took so long."""
        if (restarts := self._restarts()) != self._seen:
            self._seen = restarts
            if self._calls:  # the log starts over with the write after the checkpoint
                self._calls[-1]["checkpoint"] = True
        call = {"seconds": seconds, "collecting": self._collecting, "full": self._full > 0}
        self._calls.append(call | {"checkpoint": False})

    def to_json(self) -> dict[str, Any]:
        """Of the slowest hundredth how many had what; and what each costs, in milliseconds."""
        calls = sorted(self._calls, key=lambda call: -call["seconds"])
        slowest = calls[: max(len(calls) // 100, 1)]
        plain = [call["seconds"] for call in calls if not call["checkpoint"]]
        after = [call["seconds"] for call in calls if call["checkpoint"]]
        return {
            "calls": len(calls),
            "slowest": len(slowest),
            "slowest_with_checkpoint": sum(call["checkpoint"] for call in slowest),
            "slowest_collecting": sum(
                call["collecting"] > 0.25 * call["seconds"] for call in slowest
            ),
            "full_collections": sum(call["full"] for call in calls),
            "collecting_share": sum(c["collecting"] for c in calls) / sum(map(_seconds, calls)),
            "checkpoints": len(after),
            "checkpoint_ms": 1000 * (median(after) - median(plain)) if after and plain else 0.0,
        }

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._started = time.perf_counter()
            return
        self._collecting += time.perf_counter() - self._started
        self._full += info["generation"] == 2

    def _restarts(self) -> bytes:
        if not self._log.exists():
            return b""
        with self._log.open("rb") as log:
            return log.read(CHECKPOINTS.stop)[CHECKPOINTS]


def measure_full_collection() -> dict[str, Any]:
    """One look through all objects: as the server runs, and without what it exempts."""
    frozen, thawed = Times(), Times()
    gc.collect()
    frozen.measure(gc.collect)
    gc.unfreeze()
    gc.collect()
    thawed.measure(gc.collect)
    gc.freeze()
    return {"exempting": frozen.ms(), "everything": thawed.ms()}


def _seconds(call: dict[str, Any]) -> float:
    return float(call["seconds"])
