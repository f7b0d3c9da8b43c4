"""Memory given back is shared by threads, and the system's again, as far as glibc lets it."""

import ctypes
from contextlib import suppress
from typing import Final

M_ARENA_MAX: Final = -8
"""Its number in glibc's malloc.h."""
ARENAS: Final = 2


def keep_few_arenas() -> None:
    """Call it before threads start; without glibc it does nothing.

    Threads would get arenas of their own, eight a core, and each keeps what its largest requests
    took. Python's threads take turns in any case: two arenas do, and keep less.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Returns to the system what is free, as after a start; without glibc it does nothing."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
