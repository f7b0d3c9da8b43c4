"""What is done unless something else comes first, by one thread for all that wait.

A timer of the standard library is a thread each. Here a start and an end take a microsecond: as all
have equally long, the thread looks when the first of them would be late, and hardly ever wakes.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Deadlines:
    """Calls what is late, each in a thread of its own; safe between threads."""

    def __init__(self, seconds: float) -> None:
        """Late is what has not ended so long after its start."""
        self._seconds = seconds
        self._guard = threading.Condition()
        self._running: dict[object, tuple[float, Callable[[], object]]] = {}
        self._resting = True
        self._closed = False
        self._thread: threading.Thread | None = None

    @contextmanager
    def unless_late(self, late: Callable[[], object]) -> Iterator[Callable[[], None]]:
        """Gives what starts the time, if it is to run; it ends with the block."""
        mine = object()

        def start() -> None:
            with self._guard:
                self._running[mine] = (time.monotonic() + self._seconds, late)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._watch, daemon=True)
                    self._thread.start()
                if self._resting:
                    self._guard.notify()

        try:
            yield start
        finally:
            with self._guard:
                self._running.pop(mine, None)

    def close(self) -> None:
        """Ends the thread; nothing is late any more."""
        with self._guard:
            self._closed = True
            self._running.clear()
            self._guard.notify()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        with self._guard:
            while not self._closed:
                # Those that began first are late first.
                for mine, (until, late) in list(self._running.items()):
                    if until > time.monotonic():
                        break
                    del self._running[mine]
                    threading.Thread(target=late, daemon=True).start()
                first = next(iter(self._running.values()), None)
                self._resting = first is None
                self._guard.wait(None if first is None else max(first[0] - time.monotonic(), 0))
