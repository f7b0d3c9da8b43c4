"""Past model calls, recomputed from the store. The computations let other requests run between."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_PAUSE: ContextVar[Callable[[], None] | None] = ContextVar("pause", default=None)


def let_requests_run() -> None:
    """Pause a long computation, if its caller set a function for that by `pausing`.

    Each small step of the computation calls this. Hold no lock that other requests wait for.
    """
    if (wait := _PAUSE.get()) is not None:
        wait()


@contextmanager
def pausing(wait: Callable[[], None]) -> Iterator[None]:
    """Call `wait` at every `let_requests_run` of the block."""
    token = _PAUSE.set(wait)
    try:
        yield
    finally:
        _PAUSE.reset(token)
