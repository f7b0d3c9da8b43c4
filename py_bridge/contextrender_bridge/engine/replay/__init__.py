"""Past model calls, recomputed from the store. Long computations pause to let requests run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_PAUSE: ContextVar[Callable[[], None] | None] = ContextVar("pause", default=None)


def let_requests_run() -> None:
    """Pause a long computation. Each of its small steps calls this.

    The caller sets the function that waits with `pausing`; without one, there is no pause. Hold no
    lock that other requests wait for.
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
