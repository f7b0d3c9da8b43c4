"""The threads that take turns at Python's interpreter stay on one processor.

Only one of them computes at a time. On two processors, whoever waits for a moment (a read, a
compression, a socket) wakes another one elsewhere and then waits for it in turn; on one processor
it goes on before the other has come up. Which processor, the system chooses, anew every few
seconds: for a moment it may move them, as it does for any program. What it chose for two workers of
one service is not the same while another has fewer: held there, they would share it for seconds.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from contextrender_bridge.workers.seat import Seat

CHOICE_SECONDS: Final = 5.0
FREE_SECONDS: Final = 0.02


class OneProcessor:
    """Some threads of this process, and where they run."""

    def __init__(self, on: bool = True, seat: Seat | None = None) -> None:
        """No thread is one of them yet. Switched off, or without Linux, it does nothing.

        `seat` is this process's among other workers.
        """
        self._guard = threading.Lock()
        self._threads: list[int] = []
        self._allowed = frozenset(_allowed() if on else ())
        self._place = self._allowed
        self._seat = seat
        if seat is not None and self._allowed:
            seat.places[seat.number] = self._own_order(seat)[0]

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
                here = _processors(self._threads[0]) & self._allowed
                self._place = self._apart(here) or self._allowed
                _put(self._threads, self._place)

    def _apart(self, here: frozenset[int]) -> frozenset[int]:
        """That processor, unless fewer of the other workers are on another."""
        seat = self._seat
        if seat is None or not here:
            return here
        (chosen,) = here
        others = Counter(place for at, place in enumerate(seat.places) if at != seat.number)
        least = min(self._own_order(seat), key=lambda place: others[place])
        if others[chosen] > others[least]:
            chosen = least
        seat.places[seat.number] = chosen
        return frozenset({chosen})

    def _own_order(self, seat: Seat) -> list[int]:
        """The processors, beginning elsewhere for each worker: two that choose at once differ."""
        order = sorted(self._allowed)
        first = seat.number % len(order)
        return order[first:] + order[:first]


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
