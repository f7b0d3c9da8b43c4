"""Memory and processors of a server, and its periodic tasks.

The threads that share Python's interpreter lock are kept on one processor, because only one of them
computes at a time. On two processors, a thread that releases the lock for a short read wakes a
thread on the other processor, and then waits for that thread. On one processor it continues before
the other thread runs. The system chooses the processor again every few seconds. If there are
several workers, their threads are not kept on one processor.
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
from contextrender_bridge.process_memory import return_free_memory
from contextrender_bridge.runtime.session_lease import WORKING_SET
from contextrender_bridge.server.watching.logs import log_failure

CHECK_SECONDS: Final = 5.0
"""The interval of the periodic tasks that check this process."""
TRIM_CHECKS: Final = 6
"""The number of checks, counted from one that finds growth, after which memory is given back again.

By then the requests that used the memory should be over.
"""
LARGE_SESSION_BYTES: Final = 16 * 2**20
"""A larger session is dropped from memory when it has been idle for `IDLE_SECONDS`."""
IDLE_SECONDS: Final = 30.0
MIN_GROWTH_BYTES: Final = 24 * 2**20
"""The smallest growth that is given back. Giving back stops allocations for some 10 ms."""


def resident_bytes() -> int:
    """Return the bytes of memory that the process uses; 0 if the system does not report them."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class MemoryTrimmer:
    """A task that gives memory back to the system, during and after large requests."""

    def __init__(self) -> None:
        self._least_bytes = resident_bytes()
        """The least memory that the process used since memory was last given back."""
        self._checks_left = 0
        """The number of checks until memory is given back again; 0 if it has not grown."""

    def trim(self) -> None:
        """Drop large idle sessions, and give free memory back to the system if it is worth it.

        It is worth it if the process has grown or if a session was dropped. It is also worth it at
        the last of the TRIM_CHECKS checks that begin with the growth, because the requests that
        used the memory should then be over. The server calls this every CHECK_SECONDS.
        """
        has_grown = resident_bytes() >= self._least_bytes + MIN_GROWTH_BYTES
        has_dropped = WORKING_SET.drop_idle(LARGE_SESSION_BYTES, IDLE_SECONDS)
        self._checks_left = TRIM_CHECKS if has_grown else max(self._checks_left - 1, 0)
        is_last_check = self._checks_left == 1
        if has_grown or has_dropped or is_last_check:
            # First free objects in reference cycles: an idle process might not collect them soon.
            gc.collect()
            return_free_memory()
            self._least_bytes = resident_bytes()
        else:
            self._least_bytes = min(self._least_bytes, resident_bytes())


UNBOUND_SECONDS: Final = 0.02
"""The seconds for which the threads may use any processor: the system then chooses one."""


class OneProcessor:
    """The group of this process's threads that are kept on one processor.

    Otherwise each short wait would wake a thread on another processor, which costs time.
    """

    def __init__(self, is_enabled: bool = True) -> None:
        """Begin without threads. If it is not enabled, or not on Linux, all methods do nothing."""
        self._lock = threading.Lock()
        self._threads: list[int] = []
        is_active = is_enabled and hasattr(os, "sched_getaffinity")
        self._allowed_processors = frozenset(os.sched_getaffinity(0) if is_active else ())
        self._current_processors = self._allowed_processors

    def add_thread(self) -> None:
        """Add the calling thread to the group."""
        with self._lock:
            thread = threading.get_native_id()
            self._threads.append(thread)
            _bind([thread], self._current_processors)

    def release_thread(self) -> None:
        """Let the calling thread run on any processor, even if its creator is in the group."""
        _bind([threading.get_native_id()], self._allowed_processors)

    @contextmanager
    def main_thread(self) -> Iterator[None]:
        """Add the calling thread to the group as its first thread. After the block, end the group.

        `choose_processor` keeps all threads on the processor of the first thread. Without a group,
        the threads may run on any processor.
        """
        self.add_thread()
        try:
            yield
        finally:
            with self._lock:
                self._bind_all(self._allowed_processors)
                self._threads.clear()

    def choose_processor(self) -> None:
        """Choose the processor on which the group runs from now on.

        Let the threads run on any processor for a moment. Then keep them all on the processor that
        the system has chosen for the first thread.
        """
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
        """Let all threads of the group, also later ones, run only on these processors."""
        self._current_processors = processors
        _bind(self._threads, processors)


def _last_processor(thread: int) -> frozenset[int]:
    """Return the processor on which a thread ran last; empty if the system does not report it."""
    try:
        # Skip the name, which may have spaces. The 37th field after it is the processor (proc(5)).
        fields = Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()
        return frozenset({int(fields[36])})
    except OSError:
        return frozenset()


def _bind(threads: Collection[int], processors: Collection[int]) -> None:
    """Let these threads run only on these processors. Without processors, do nothing."""
    if not processors:
        return
    for thread in threads:
        # A thread may have ended, or a sandbox may forbid the call.
        with suppress(OSError):
            os.sched_setaffinity(thread, processors)


def run_periodically(
    task: str, work: Callable[[], object], seconds: float
) -> AbstractContextManager[None]:
    """Return a context manager that runs `work` in a thread, at once and then every `seconds`.

    It stops when the block ends. A failure is logged as one of `task`, and the work runs again
    after the next period.
    """

    def run_once() -> None:
        """Run the work once, and log a failure."""
        try:
            work()
        except Exception as failure:
            log_failure(task, failure)

    return run_in_background(run_once, 0.0, seconds)
