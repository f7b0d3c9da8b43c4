"""How the work on a hostile text grows with its length, whatever the machine and its load."""

import time
from collections.abc import Callable

SHORTEST_SECONDS = 0.02
"""Less than that is told from noise by nobody."""


def grows_in_proportion(work: Callable[[int], object], size: int) -> bool:
    """Whether four times as much takes less than ten times as long, of the processor's time.

    Work that grows with the square takes sixteen times as long.
    """

    def seconds(length: int) -> float:
        started = time.process_time()
        work(length)
        return max(time.process_time() - started, SHORTEST_SECONDS)

    return any(seconds(4 * size) < 10 * seconds(size) for _ in range(3))
