"""Memory and processors of a server, and what it does by itself from time to time.

The threads that take turns at Python's interpreter are kept on one processor, because only one of
them computes at a time. On two processors, a thread that waits for a moment (a read, a compression)
wakes another one elsewhere and then waits for it in turn. On one processor it continues before the
other one runs. The system chooses the processor again every few seconds. Threads of several workers
are not kept on one.
"""

import gc
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final

from contextrender_bridge.local_service import meanwhile
from contextrender_bridge.process_memory import give_back
from contextrender_bridge.server.watching.logs import log_failure
from contextrender_bridge.sessions.caches import WORKING_SET

LOOK_SECONDS: Final = 5.0
"""Between looks at what the process takes."""
LOOKS: Final = 6
LARGE_SESSION_BYTES: Final = 16 * 2**20
"""A session that takes more is read from the store again after a pause of `IDLE_SECONDS`."""
IDLE_SECONDS: Final = 30.0
WORTH_BYTES: Final = 24 * 2**20
"""Giving memory back takes some 10 ms, in which allocations wait."""


def resident_bytes() -> int:
    """Return the bytes that the process holds; 0 if the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class MemoryTrimmer:
    """Gives memory back after requests that took much: at once, and when they must be over."""

    def __init__(self) -> None:
        self._least_bytes = resident_bytes()
        self._looks = 0
        """Looks until memory is given back once more, because a request held it at the first."""

    def look(self) -> None:
        """Call it now and then."""
        has_grown = resident_bytes() >= self._least_bytes + WORTH_BYTES
        dropped = WORKING_SET.drop_idle(LARGE_SESSION_BYTES, IDLE_SECONDS)
        self._looks = LOOKS if has_grown else max(self._looks - 1, 0)
        if has_grown or dropped or self._looks == 1:
            # What refers to itself goes first: with little to do, the collector might not run soon.
            gc.collect()
            give_back()
            self._least_bytes = resident_bytes()
        else:
            self._least_bytes = min(self._least_bytes, resident_bytes())


FREE_SECONDS: Final = 0.02


class OneProcessor:
    """Some threads of this process, and where they run."""

    def __init__(self, on: bool = True) -> None:
        """Begin without threads. Switched off, or without Linux, it does nothing."""
        self._guard = threading.Lock()
        self._threads: list[int] = []
        is_supported = on and hasattr(os, "sched_getaffinity")
        self._allowed_processors = frozenset(os.sched_getaffinity(0) if is_supported else ())
        self._place = self._allowed_processors

    def join(self) -> None:
        """Add the calling thread."""
        with self._guard:
            thread = threading.get_native_id()
            self._threads.append(thread)
            _put([thread], self._place)

    def leave(self) -> None:
        """Let the calling thread run anywhere, whoever started it."""
        _put([threading.get_native_id()], self._allowed_processors)

    @contextmanager
    def first(self) -> Iterator[None]:
        """Add the calling thread for the block; `choose` asks where it runs."""
        self.join()
        try:
            yield
        finally:
            with self._guard:
                self._place = self._allowed_processors
                _put(self._threads, self._allowed_processors)
                self._threads.clear()

    def choose(self) -> None:
        """Let the system move the threads for a moment, then hold them where the first one runs."""
        if len(self._allowed_processors) < 2 or not self._threads:
            return
        with self._guard:
            self._place = self._allowed_processors
            _put(self._threads, self._allowed_processors)
        time.sleep(FREE_SECONDS)
        with self._guard:
            if self._threads:
                self._place = (
                    _processors(self._threads[0]) & self._allowed_processors
                    or self._allowed_processors
                )
                _put(self._threads, self._place)


def _processors(thread: int) -> frozenset[int]:
    """Return the processor that a thread ran on last; none if the system does not say."""
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


def now_and_then(
    task: str, work: Callable[[], object], seconds: float
) -> AbstractContextManager[None]:
    """Do `work` at once and after every so many seconds, for the block.

    A failure is logged, and the next turn tries again.
    """

    def run_once() -> None:
        try:
            work()
        except Exception as failure:
            log_failure(task, failure)

    return meanwhile(run_once, 0.0, seconds)
