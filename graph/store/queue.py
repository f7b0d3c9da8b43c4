"""One queue of writes a process, first come first served: what waits is written together.

Whoever comes while nothing is being written writes at once, in its own thread. What arrives
meanwhile waits, and the next to go takes all of it along: one transaction and one sync for many.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from graph.store.writes import Unit

MOST_TOGETHER: Final = 64


@dataclass(slots=True)
class _Job:
    unit: Unit
    done: bool = False
    failure: BaseException | None = None


class WriteQueue:
    """Hands units to `write_all`, which gives an error, or None, for each."""

    def __init__(self, write_all: Callable[[Sequence[Unit]], list[Exception | None]]) -> None:
        self._write_all = write_all
        self._guard = threading.Lock()
        self._turn = threading.Lock()
        self._waiting: list[_Job] = []

    def write(self, unit: Unit) -> None:
        """Returns once it is written. Raises what writing it raised."""
        job = _Job(unit)
        with self._guard:
            self._waiting.append(job)
        while not job.done:
            with self._turn:
                if not job.done:
                    self._write_some()
        if job.failure is not None:
            raise job.failure

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Nobody of this process writes during the block: whoever comes waits here, and not, by
        ever longer sleeps, for the database's own lock."""
        with self._turn:
            yield

    def _write_some(self) -> None:
        with self._guard:
            jobs = self._waiting[:MOST_TOGETHER]
            del self._waiting[:MOST_TOGETHER]
        try:
            failures: Sequence[BaseException | None] = self._write_all([job.unit for job in jobs])
        except BaseException as failure:
            failures = [failure] * len(jobs)
        for job, outcome in zip(jobs, failures, strict=True):
            job.failure = outcome
            job.done = True
