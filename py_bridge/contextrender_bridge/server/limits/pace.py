"""Beside agents' calls, looking back works only a tenth of the time.

A process of Python computes one thing at a time, and a page of the console can take seconds of it.
Looks therefore stop every few milliseconds: while calls of agents are under way, or were a moment
ago, all looks together rest nine times as long as they worked. With no agent at work none rests.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from engine.lookback.pausing import pausing

LOOKING_THREADS: Final = 4
"""They wait for each other, never an agent's call for them."""

WORK_SECONDS: Final = 0.002
RESTS: Final = 9
LONGEST_REST: Final = 2.0
"""Seconds; what cannot be interrupted is not made up for beyond this."""
RECENT_SECONDS: Final = 0.05


class Pace:
    """Counts agents' calls under way, and holds looks back beside them; safe between threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._under_way = 0
        self._latest = float("-inf")
        self._rest_until = 0.0
        self._mine = threading.local()

    @contextmanager
    def agent(self) -> Iterator[None]:
        """An agent's call, for as long as the block takes."""
        with self._guard:
            self._under_way += 1
        try:
            yield
        finally:
            with self._guard:
                self._under_way -= 1
                self._latest = time.monotonic()

    @contextmanager
    def look(self) -> Iterator[None]:
        """A look, which rests at its start and wherever it may pause."""
        self._rest()
        self._mine.begun = time.thread_time()
        try:
            with pausing(self.pause):
                yield
        finally:
            self._owe(time.thread_time() - self._mine.begun)

    def pause(self) -> None:
        """Rests, where this thread's look has worked for a while and agents are at work."""
        worked = time.thread_time() - self._mine.begun
        if worked >= WORK_SECONDS:
            self._owe(worked)
            self._rest()
            self._mine.begun = time.thread_time()

    def _owe(self, worked: float) -> None:
        with self._guard:
            now = time.monotonic()
            until = max(now, self._rest_until) + RESTS * worked
            self._rest_until = min(until, now + LONGEST_REST)

    def _rest(self) -> None:
        while (left := self._rest_until - time.monotonic()) > 0 and self._agents_work():
            time.sleep(min(left, RECENT_SECONDS))

    def _agents_work(self) -> bool:
        return self._under_way > 0 or time.monotonic() - self._latest < RECENT_SECONDS
