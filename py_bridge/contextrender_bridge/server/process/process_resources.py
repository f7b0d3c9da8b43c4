"""Memory and processors of a server, and its periodic tasks.

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

from contextrender_bridge.background import run_in_background
from contextrender_bridge.process_memory import give_back
from contextrender_bridge.server.watching.logs import log_failure
from contextrender_bridge.sessions.caches import WORKING_SET

CHECK_SECONDS: Final = 5.0
"""The interval of the periodic tasks that check this process."""
TRIM_CHECKS: Final = 6
"""After memory has grown, it is given back again at this check, when requests must be over."""
LARGE_SESSION_BYTES: Final = 16 * 2**20
"""A larger session is dropped from memory when it has been idle for `IDLE_SECONDS`."""
IDLE_SECONDS: Final = 30.0
MIN_GROWTH_BYTES: Final = 24 * 2**20
"""Less growth is not given back, because giving back stops allocations for some 10 ms."""


def resident_bytes() -> int:
    """Return the bytes of memory that the process uses; 0 if the system does not report them."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class MemoryTrimmer:
    """Gives memory back to the system after large requests: at once, and when they must be over."""

    def __init__(self) -> None:
        self._least_bytes = resident_bytes()
        self._checks_left = 0
        """Checks until memory is given back again, because a request may have used it until now."""

    def trim(self) -> None:
        """Check the memory, and give back what is free. It is called every CHECK_SECONDS."""
        has_grown = resident_bytes() >= self._least_bytes + MIN_GROWTH_BYTES
        has_dropped = WORKING_SET.drop_idle(LARGE_SESSION_BYTES, IDLE_SECONDS)
        self._checks_left = TRIM_CHECKS if has_grown else max(self._checks_left - 1, 0)
        if has_grown or has_dropped or self._checks_left == 1:
            # First free objects in reference cycles: an idle process might not collect them soon.
            gc.collect()
            give_back()
            self._least_bytes = resident_bytes()
        else:
            self._least_bytes = min(self._least_bytes, resident_bytes())


UNBOUND_SECONDS: Final = 0.02
"""How long the threads run on any processor, so that the system chooses the next one."""


class OneProcessor:
    """Threads of this process that are kept on one processor."""

    def __init__(self, is_enabled: bool = True) -> None:
        """Begin without threads. If it is not enabled, or not on Linux, it does nothing."""
        self._lock = threading.Lock()
        self._threads: list[int] = []
        is_active = is_enabled and hasattr(os, "sched_getaffinity")
        self._allowed_processors = frozenset(os.sched_getaffinity(0) if is_active else ())
        self._current_processors = self._allowed_processors

    def add_thread(self) -> None:
        """Keep the calling thread on the processor of the others."""
        with self._lock:
            thread = threading.get_native_id()
            self._threads.append(thread)
            _bind([thread], self._current_processors)

    def release_thread(self) -> None:
        """Let the calling thread run on any processor. It may have inherited the one processor."""
        _bind([threading.get_native_id()], self._allowed_processors)

    @contextmanager
    def main_thread(self) -> Iterator[None]:
        """Add the calling thread for the block, as the first one, whose processor is chosen."""
        self.add_thread()
        try:
            yield
        finally:
            with self._lock:
                self._bind_all(self._allowed_processors)
                self._threads.clear()

    def choose_processor(self) -> None:
        """Let the system move the threads for a moment, then keep them where the first one runs."""
        if len(self._allowed_processors) < 2 or not self._threads:
            return
        with self._lock:
            self._bind_all(self._allowed_processors)
        time.sleep(UNBOUND_SECONDS)
        with self._lock:
            if self._threads:
                processors = _last_processor(self._threads[0]) & self._allowed_processors
                self._bind_all(processors or self._allowed_processors)

    def _bind_all(self, processors: frozenset[int]) -> None:
        self._current_processors = processors
        _bind(self._threads, processors)


def _last_processor(thread: int) -> frozenset[int]:
    """Return the processor that a thread ran on last; none if the system does not report it."""
    try:
        # The fields after the name, which may have spaces: the 37th is the processor (proc(5)).
        fields = Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()
        return frozenset({int(fields[36])})
    except OSError:
        return frozenset()


def _bind(threads: Collection[int], processors: Collection[int]) -> None:
    """Let these threads run only on these processors. Without processors, do nothing."""
    for thread in threads if processors else ():
        # A thread may have ended, and a sandbox may forbid it.
        with suppress(OSError):
            os.sched_setaffinity(thread, processors)


def run_periodically(
    task: str, work: Callable[[], object], seconds: float
) -> AbstractContextManager[None]:
    """Do `work` at once and every so many seconds, in a thread, while the block runs.

    A failure is logged, and the work is done again in the next period.
    """

    def run_once() -> None:
        try:
            work()
        except Exception as failure:
            log_failure(task, failure)

    return run_in_background(run_once, 0.0, seconds)
