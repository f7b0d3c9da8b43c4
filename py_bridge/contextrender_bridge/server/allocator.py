"""Threads share the memory that they gave back, as far as glibc lets them."""

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
