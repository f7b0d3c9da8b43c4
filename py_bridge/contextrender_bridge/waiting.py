"""Tells who waits what for, how long it usually takes, and how long it has taken."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

FIRST_SECONDS: Final = 3.0
EVERY_SECONDS: Final = 10.0
STARTING: Final = "usually ten seconds; half a minute and more if its Jac code is not compiled yet"
"""How long the service takes to start."""


@contextmanager
def telling(
    what: str,
    usual: str,
    say: Callable[[str], None],
    first: float = FIRST_SECONDS,
    every: float = EVERY_SECONDS,
) -> Iterator[None]:
    """Tells `what` the block does if it takes longer than `first` seconds, and then `every` few."""
    done, begun = threading.Event(), time.monotonic()

    def tell() -> None:
        if done.wait(first):
            return
        say(f"{what} ({usual}) ...")
        while not done.wait(every):
            say(f"{what}: {time.monotonic() - begun:.0f} s so far ...")

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
