"""Work in a thread while a block runs, and reports of the progress of a start."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain, count, repeat
from typing import Final

FIRST_REPORT_SECONDS: Final = 3.0
REPORT_SECONDS: Final = 10.0
USUAL_START_TIME: Final = (
    "usually ten seconds; half a minute and more if its Jac code is not compiled yet"
)
"""The usual time to start the service, in words."""


@contextmanager
def run_in_background(work: Callable[[], object], *pauses: float) -> Iterator[None]:
    """Do `work` again and again in a thread, while the block runs.

    Before each time, wait for the next of `pauses`, in seconds. After the last one, use it again.
    """
    ended = threading.Event()

    def repeat_work() -> None:
        """Do the work after each pause, until the block has ended."""
        for pause in chain(pauses, repeat(pauses[-1])):
            if ended.wait(pause):
                return
            work()

    # A daemon thread does not keep the process alive.
    thread = threading.Thread(target=repeat_work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def report_progress(
    task: str, report: Callable[[str], None], first: float = FIRST_REPORT_SECONDS
) -> AbstractContextManager[None]:
    """Return a context manager that reports, while its block runs, what the block waits for.

    `report` is called with a line that names the `task`: after `first` seconds, and then every
    `REPORT_SECONDS`, with the seconds so far. A block that ends before reports nothing.
    """
    started_at = time.monotonic()
    lines = chain(
        [f"{task} ({USUAL_START_TIME}) ..."],
        (f"{task}: {time.monotonic() - started_at:.0f} s so far ..." for _ in count()),
    )
    return run_in_background(lambda: report(next(lines)), first, REPORT_SECONDS)


def report_slow_start() -> AbstractContextManager[None]:
    """Return a context manager that reports on stderr that the service is being loaded.

    It reports only if its block takes some seconds.
    """
    return report_progress("Loading the service", partial(print, file=sys.stderr, flush=True))
