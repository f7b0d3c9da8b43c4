"""Samples of how long something took."""

import time
from collections.abc import Callable
from typing import Any, Self


class Times:
    """Seconds taken, reported in milliseconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def measure[T](self, work: Callable[[], T]) -> T:
        """Does the work and notes how long it took."""
        start = time.perf_counter()
        done = work()
        self.seconds.append(time.perf_counter() - start)
        return done

    def ms(self, share: float = 0.5) -> float:
        """The time within which this share of the samples was done."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)]

    def over(self, units: float) -> Self:
        """The same, of one of so many units that each sample did."""
        shared = type(self)()
        shared.seconds = [seconds / units for seconds in self.seconds]
        return shared

    def to_json(self) -> dict[str, Any]:
        """Percentiles in milliseconds."""
        shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
        figures: dict[str, Any] = {name: round(self.ms(at), 4) for name, at in shares.items()}
        return {**figures, "samples": len(self.seconds)}
