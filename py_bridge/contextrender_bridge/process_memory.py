"""Memory that is free goes back to the system, as far as glibc lets it."""

import ctypes
from contextlib import suppress
from typing import Final

M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
"""Their numbers in glibc's malloc.h."""
ARENAS: Final = 2
LARGE_BYTES: Final = 131_072
"""glibc's own limit, which it would raise to 32 MB once something large is freed."""


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
    """Return free memory to the system, as after a start; without glibc do nothing."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
