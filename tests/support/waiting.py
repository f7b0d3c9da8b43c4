"""Waiting for events, however slow the machine is."""

import time
from collections.abc import Callable


def wait_until[T](
    condition: Callable[[], T],
    *,
    alive: Callable[[], bool] = lambda: True,
    why: Callable[[], object] = lambda: "it did not come",
    seconds: float = 120,
) -> T:
    """Return the value of `condition` once it is true.

    Fails with `why` after so many seconds, or as soon as what is to bring it about is not `alive`.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert alive() and time.monotonic() < deadline, why()
        time.sleep(0.02)
    return value
