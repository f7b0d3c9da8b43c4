"""Pauses of Python's garbage collection."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_GUARD = threading.Lock()
_pauses = 0


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pause the collection of cyclic garbage while the block runs.

    A block that reads a long session makes a million objects that all stay. Repeated collections
    would visit all of them, which takes more than a third of the time. Several threads may pause
    the collection at the same time; it continues when the last block ends.
    """
    global _pauses
    with _GUARD:
        _pauses += 1
        gc.disable()
    try:
        yield
    finally:
        with _GUARD:
            _pauses -= 1
            if not _pauses:
                gc.enable()
