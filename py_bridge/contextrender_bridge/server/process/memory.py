"""Memory given back is shared by threads, and the system's again, as far as glibc lets it."""

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
"""Their numbers in glibc's malloc.h."""
ARENAS: Final = 2
LARGE_BYTES: Final = 131_072
"""glibc's own limit, which it would raise to 32 MB once something large is freed."""
THRIFT_SECONDS: Final = 5.0
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


class Thrift:
    """Gives back what requests have left free, each time the process has grown by much."""

    def __init__(
        self,
        resident: Callable[[], int] = resident_bytes,
        give_back: Callable[[], None] = give_back,
    ) -> None:
        self._resident, self._give_back = resident, give_back
        self._least = resident()

    def look(self) -> None:
        """Call it now and then."""
        held = self._resident()
        if held >= self._least + WORTH_BYTES:
            self._give_back()
            self._least = self._resident()
        else:
            self._least = min(self._least, held)
