"""Past model calls, recomputed from the store. The computations can pause for other requests."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_PAUSE: ContextVar[Callable[[], None] | None] = ContextVar("pause", default=None)


def pause() -> None:
    """Let other requests run, if the caller asked for pauses. Hold no lock that they wait for."""
    if (wait := _PAUSE.get()) is not None:
        wait()


@contextmanager
def pausing(wait: Callable[[], None]) -> Iterator[None]:
    """Call `wait` at every `pause` of the block."""
    token = _PAUSE.set(wait)
    try:
        yield
    finally:
        _PAUSE.reset(token)
