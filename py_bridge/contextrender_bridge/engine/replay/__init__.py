"""Past model calls, recomputed from the store. Long computations pause to let requests run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_PAUSE: ContextVar[Callable[[], None] | None] = ContextVar("pause", default=None)


def let_requests_run() -> None:
    """Pause a long computation, so that other requests run. Each small step of it calls this.

    The function that waits was set by `pausing`. If none was set, there is no pause. A caller may
    hold no lock that other requests wait for.
    """
    if (wait := _PAUSE.get()) is not None:
        wait()


@contextmanager
def pausing(wait: Callable[[], None]) -> Iterator[None]:
    """Let every `let_requests_run` within the block call `wait`."""
    token = _PAUSE.set(wait)
    try:
        yield
    finally:
        _PAUSE.reset(token)
