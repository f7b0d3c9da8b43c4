"""How far tasks are that run in other processes, so that a progress bar moves within a long one.

A computation calls `pause` (engine.replay) at each of its small steps. A worker counts these calls
in memory that all processes share; the parent reads the counts twice a second.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from contextlib import contextmanager
from typing import Any, Final

from contextrender_bridge.engine.replay import pausing

SECONDS: Final = 0.5
PAUSES_PER_STEP: Final = 4.7
"""About, in a closed loop; the first finished task corrects it."""
NEARLY: Final = 0.95
"""Share of a task that is shown as done at most, before it is."""

_COUNTS: MutableSequence[int] = []
"""In a worker: the pauses of each task."""


class TaskProgress:
    """The steps that are done of tasks with these sizes; `advance` is told of new ones."""

    def __init__(self, sizes: Sequence[int], advance: Callable[[int], None]) -> None:
        self._sizes = sizes
        self._advance = advance
        self.counts: Any = multiprocessing.get_context("spawn").Array("q", len(sizes), lock=False)
        self._finished: set[int] = set()
        self._shown = 0

    def finish(self, task: int) -> None:
        """Count a task as done."""
        self._finished.add(task)
        self.show()

    def show(self) -> None:
        """Tell `advance` how many steps have been done since it was last told."""
        done = sum(self._sizes[task] for task in self._finished)
        pauses = sum(self.counts[task] for task in self._finished)
        rate = pauses / done if pauses and done else PAUSES_PER_STEP
        running = sum(
            min(self.counts[task] / rate, NEARLY * size)
            for task, size in enumerate(self._sizes)
            if task not in self._finished
        )
        if (steps := int(done + running) - self._shown) > 0:
            self._shown += steps
            self._advance(steps)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the progress twice a second while the block runs."""
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(SECONDS):
                self.show()

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def start_counting(counts: MutableSequence[int]) -> None:
    """Prepare a worker process."""
    global _COUNTS  # a worker has one set of tasks
    _COUNTS = counts


def counted[R](task: int, work: Callable[..., R], *arguments: Any) -> R:
    """Do the work of a task, and count its pauses."""

    def count() -> None:
        _COUNTS[task] += 1

    with pausing(count):
        return work(*arguments)


def counted_here[R](
    progress: TaskProgress, task: int, work: Callable[..., R], *arguments: Any
) -> R:
    """Do the work in this process, and show its progress meanwhile."""
    last = time.monotonic()

    def count() -> None:
        nonlocal last
        progress.counts[task] += 1
        if time.monotonic() - last > SECONDS:
            last = time.monotonic()
            progress.show()

    with pausing(count):
        return work(*arguments)
