"""Waiting for events, however slow the machine is."""

import time
from collections.abc import Callable


def wait_until[T](
    condition: Callable[[], T],
    *,
    alive: Callable[[], bool] = lambda: True,
    explain: Callable[[], object] = lambda: "it did not come",
    seconds: float = 120,
) -> T:
    """Return the value of `condition` once it is true.

    Fail with the result of `explain` after `seconds`, or as soon as `alive` returns False.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert alive() and time.monotonic() < deadline, explain()
        time.sleep(0.02)
    return value
