"""Tracks the progress of tasks in other processes, so that a progress bar moves within a long one.

A computation calls `let_requests_run` (engine.replay) at each of its small steps. A worker counts
these calls in memory that all processes share; the parent reads the counts twice a second.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, MutableSequence, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from contextrender_bridge.background import run_in_background
from contextrender_bridge.engine.replay import pausing

UPDATE_SECONDS: Final = 0.5
PAUSES_PER_STEP: Final = 4.7
"""The estimated pauses per step, for a closed loop. The pauses of finished tasks replace it."""
MAX_UNFINISHED_SHARE: Final = 0.95
"""The largest share of an unfinished task that is shown as done."""

_COUNTS: MutableSequence[int] = []
"""The number of pauses of each task, in a worker process."""


class TaskProgress:
    """The finished steps of tasks.

    `sizes` has the number of steps of each task. `advance` is called with the number of steps that
    have finished since its last call.
    """

    def __init__(self, sizes: Sequence[int], advance: Callable[[int], None]) -> None:
        """Start with no step finished. `counts` is shared with the worker processes."""
        self._sizes = sizes
        self._advance = advance
        self.counts: Any = multiprocessing.get_context("spawn").Array("q", len(sizes), lock=False)
        self._finished: set[int] = set()
        self._reported_steps = 0

    def finish(self, task: int) -> None:
        """Count a task as finished, and show the progress."""
        self._finished.add(task)
        self.show()

    def show(self) -> None:
        """Call `advance` with the number of steps finished since it was last called.

        A task calls `let_requests_run`, a pause, several times in each step. The steps of running
        tasks are estimated from their pauses and from the pauses per step of the finished tasks.
        """
        finished_steps = sum(self._sizes[task] for task in self._finished)
        pauses = sum(self.counts[task] for task in self._finished)
        rate = pauses / finished_steps if pauses and finished_steps else PAUSES_PER_STEP
        running_steps = sum(
            min(self.counts[task] / rate, MAX_UNFINISHED_SHARE * size)
            for task, size in enumerate(self._sizes)
            if task not in self._finished
        )
        if (steps := int(finished_steps + running_steps) - self._reported_steps) > 0:
            self._reported_steps += steps
            self._advance(steps)

    def periodic_updates(self) -> AbstractContextManager[None]:
        """Show the progress twice a second while the block runs."""
        return run_in_background(self.show, UPDATE_SECONDS)


def start_counting(counts: MutableSequence[int]) -> None:
    """Prepare a worker process to count pauses in shared memory."""
    global _COUNTS  # a worker has one set of tasks
    _COUNTS = counts


def count_pauses[R](task: int, work: Callable[..., R], *arguments: Any) -> R:
    """Do the work of a task in a worker process, and count its pauses for the progress bar."""

    def count() -> None:
        _COUNTS[task] += 1

    with pausing(count):
        return work(*arguments)


def work_here[R](progress: TaskProgress, task: int, work: Callable[..., R], *arguments: Any) -> R:
    """Do the work in this process, and show its progress meanwhile."""
    last_update = time.monotonic()

    def count() -> None:
        """Count a step of `task`, and show the progress if it was not shown for a while."""
        nonlocal last_update
        progress.counts[task] += 1
        if time.monotonic() - last_update > UPDATE_SECONDS:
            last_update = time.monotonic()
            progress.show()

    with pausing(count):
        return work(*arguments)
