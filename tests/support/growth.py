"""How processor time grows with the length of a text, on any machine and under any load."""

import time
from collections.abc import Callable

SHORTEST_SECONDS = 0.02
"""Seconds; shorter times are noise."""


def grows_in_proportion(work: Callable[[int], object], size: int) -> bool:
    """Return whether four times the size takes less than ten times the processor time.

    Quadratic work takes sixteen times as long.
    """

    def seconds(length: int) -> float:
        start_time = time.process_time()
        work(length)
        return max(time.process_time() - start_time, SHORTEST_SECONDS)

    return any(seconds(4 * size) < 10 * seconds(size) for _ in range(3))
