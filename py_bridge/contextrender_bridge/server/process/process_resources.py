"""What the process takes of its machine: memory that is given back, and one processor; and what a
running server does by itself from time to time.

Memory given back is shared by threads, and the system's again, as far as glibc lets it.

The threads that take turns at Python's interpreter stay on one processor. Only one of them computes
at a time. On two processors, whoever waits for a moment (a read, a compression, a socket) wakes
another one elsewhere and then waits for it in turn; on one processor it goes on before the other
has come up. Which processor, the system chooses, anew every few seconds: for a moment it may move
them, as it does for any program. Of several workers none is held.
"""

import ctypes
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final

from contextrender_bridge.local_service import meanwhile
from contextrender_bridge.server.watching.logs import log_failure

M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
"""Their numbers in glibc's malloc.h."""
ARENAS: Final = 2
LARGE_BYTES: Final = 131_072
"""glibc's own limit, which it would raise to 32 MB once something large is freed."""
LOOK_SECONDS: Final = 5.0
"""Between looks at what the process takes."""
WORTH_BYTES: Final = 24 * 2**20
"""Giving memory back takes some 10 ms, in which allocations wait."""


def keep_little() -> None:
    """Call it before threads start; without glibc it does nothing.

    Threads would get arenas of their own, eight a core, and each keeps what its largest requests
    took. Python's threads take turns in any case: two arenas do, and keep less. What is large is
    the system's again as soon as it is freed, and leaves no hole.
    """
    with suppress(OSError, AttributeError, TypeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_ARENA_MAX, ARENAS)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)


def give_back() -> None:
    """Returns to the system what is free, as after a start; without glibc it does nothing."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def resident_bytes() -> int:
    """What the process holds; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class MemoryTrimmer:
    """Gives back what requests have left free, each time the process has grown by much."""

    def __init__(self) -> None:
        self._least = resident_bytes()

    def look(self) -> None:
        """Call it now and then."""
        if resident_bytes() >= self._least + WORTH_BYTES:
            give_back()
            self._least = resident_bytes()
        else:
            self._least = min(self._least, resident_bytes())


FREE_SECONDS: Final = 0.02


class OneProcessor:
    """Some threads of this process, and where they run."""

    def __init__(self, on: bool = True) -> None:
        """No thread is one of them yet. Switched off, or without Linux, it does nothing."""
        self._guard = threading.Lock()
        self._threads: list[int] = []
        known = on and hasattr(os, "sched_getaffinity")
        self._allowed = frozenset(os.sched_getaffinity(0) if known else ())
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


def now_and_then(
    what: str, work: Callable[[], object], seconds: float
) -> AbstractContextManager[None]:
    """Does `work` at once and after every so many seconds, for the block. A failure is logged, and
    the next turn may do."""

    def tried() -> None:
        try:
            work()
        except Exception as failure:
            log_failure(what, failure)

    return meanwhile(tried, 0.0, seconds)
