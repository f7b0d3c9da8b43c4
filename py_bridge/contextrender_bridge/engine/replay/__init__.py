"""Past model calls, recomputed from what is stored, and where that may be asked to wait."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_PAUSE: ContextVar[Callable[[], None] | None] = ContextVar("pause", default=None)


def pause() -> None:
    """Lets other requests go on, if the caller asked for it. Hold nothing that they wait for."""
    if (wait := _PAUSE.get()) is not None:
        wait()


@contextmanager
def pausing(wait: Callable[[], None]) -> Iterator[None]:
    """Calls `wait` wherever the computations of the block say that they may pause."""
    token = _PAUSE.set(wait)
    try:
        yield
    finally:
        _PAUSE.reset(token)
