"""Work that no reply waits for: a few threads, a bounded backlog, drained at shutdown."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from contextrender_bridge.server.logs import log_failure


class Background:
    """Runs tasks soon. They get no Jac context: give them plain values."""

    def __init__(self, threads: int = 2, backlog: int = 256) -> None:
        """Threads start with the first task."""
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="background")
        self._room = threading.BoundedSemaphore(backlog)

    def submit(self, task: Callable[[], object]) -> bool:
        """Queue `task`; False when the backlog is full or closed, and it will not run."""
        if not self._room.acquire(blocking=False):
            return False
        try:
            self._pool.submit(self._run, task)
        except RuntimeError:
            self._room.release()
            return False
        return True

    def drain(self) -> None:
        """Finish what was queued and take no more."""
        self._pool.shutdown(wait=True)

    def _run(self, task: Callable[[], object]) -> None:
        try:
            task()
        except Exception as failure:
            log_failure("background task", failure)
        finally:
            self._room.release()


background = Background()
submit = background.submit
