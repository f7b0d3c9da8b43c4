"""The threads that take turns at Python's interpreter stay on one processor.

Only one of them computes at a time. On two processors, whoever waits for a moment (a read, a
compression, a socket) wakes another one elsewhere and then waits for it in turn; on one processor
it goes on before the other has come up. Which processor, the system chooses, anew every few
seconds: for a moment it may move them, as it does for any program. Of several workers none is held.
"""

import os
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

CHOICE_SECONDS: Final = 5.0
FREE_SECONDS: Final = 0.02


class OneProcessor:
    """Some threads of this process, and where they run."""

    def __init__(self, on: bool = True) -> None:
        """No thread is one of them yet. Switched off, or without Linux, it does nothing."""
        self._guard = threading.Lock()
        self._threads: list[int] = []
        self._allowed = frozenset(_allowed() if on else ())
        self._place = self._allowed

    def join(self) -> None:
        """The calling thread is one of them from now on."""
        with self._guard:
            thread = threading.get_native_id()
            self._threads.append(thread)
            _put([thread], self._place)

    def leave(self) -> None:
        """The calling thread is none of them, whoever started it."""
        _put([threading.get_native_id()], self._allowed)

    @contextmanager
    def first(self) -> Iterator[None]:
        """The calling thread is one for the block, and `choose` asks where it is."""
        self.join()
        try:
            yield
        finally:
            with self._guard:
                self._place = self._allowed
                _put(self._threads, self._allowed)
                self._threads.clear()

    def choose(self) -> None:
        """Lets the system move them for a moment; they stay where the first one then is."""
        if len(self._allowed) < 2 or not self._threads:
            return
        with self._guard:
            self._place = self._allowed
            _put(self._threads, self._allowed)
        time.sleep(FREE_SECONDS)
        with self._guard:
            if self._threads:
                self._place = _processors(self._threads[0]) & self._allowed or self._allowed
                _put(self._threads, self._place)


def _allowed() -> Collection[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()


def _processors(thread: int) -> frozenset[int]:
    """The one that a thread of this process ran on last; none where the system does not say."""
    try:
        fields = Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()
        return frozenset({int(fields[36])})
    except OSError:
        return frozenset()


def _put(threads: Collection[int], place: Collection[int]) -> None:
    for thread in threads if place else ():
        # One may have ended, and a sandbox may forbid it.
        with suppress(OSError):
            os.sched_setaffinity(thread, place)
