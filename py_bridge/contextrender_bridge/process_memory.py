"""Settings of glibc's memory allocator, which would keep much memory after it was freed."""

import ctypes
from contextlib import suppress
from typing import Final

# The numbers of these options in glibc's malloc.h.
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
ARENAS: Final = 2
LARGE_BYTES: Final = 131_072
"""glibc's initial limit of small blocks. Unless the limit is set, glibc raises it up to 32 MB."""


def limit_free_memory() -> None:
    """Limit the memory that glibc keeps after it was freed. Without glibc, do nothing.

    Call it before any thread starts. By default glibc has up to eight arenas per core, and each of
    them keeps the memory of its largest request. Python's threads take turns, so two arenas are
    enough. Blocks from `LARGE_BYTES` on are returned to the system as soon as they are freed.
    """
    with suppress(OSError, AttributeError, TypeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_ARENA_MAX, ARENAS)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)


def return_free_memory() -> None:
    """Return all free memory to the system. Without glibc, do nothing."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
