"""Tracks the progress of tasks in other processes, so that a progress bar moves within a long one.

A computation pauses at each of its small steps: it calls `let_requests_run` (engine.replay). A
worker counts the pauses in memory that all processes share. The parent reads the counts twice a
second.
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
"""The estimated pauses per step of a closed loop, until a task is finished."""
MAX_UNFINISHED_SHARE: Final = 0.95
"""The largest share of an unfinished task that is shown as done."""

_COUNTS: MutableSequence[int] = []
"""The number of pauses of each task, in a worker process."""


class TaskProgress:
    """The finished steps of tasks."""

    def __init__(self, sizes: Sequence[int], advance: Callable[[int], None]) -> None:
        """Start with no step finished. `sizes` has the number of steps of each task.

        `advance` is called with the number of steps that have finished since its last call.
        """
        self._sizes = sizes
        self._advance = advance
        # The number of pauses of each task, in memory that the worker processes share. A task
        # pauses often within a step, so the pauses show how far it is.
        self.counts: Any = multiprocessing.get_context("spawn").Array("q", len(sizes), lock=False)
        self._finished: set[int] = set()
        self._reported_steps = 0

    def finish(self, task: int) -> None:
        """Count a task as finished, and show the progress."""
        self._finished.add(task)
        self.show()

    def show(self) -> None:
        """Call `advance` with the number of steps finished since it was last called.

        The steps of a running task are estimated: its pauses divided by the pauses per step of the
        finished tasks.
        """
        steps_of_finished = sum(self._sizes[task] for task in self._finished)
        pauses = sum(self.counts[task] for task in self._finished)
        has_measured_rate = pauses and steps_of_finished
        pauses_per_step = pauses / steps_of_finished if has_measured_rate else PAUSES_PER_STEP
        steps_of_running = sum(
            min(self.counts[task] / pauses_per_step, MAX_UNFINISHED_SHARE * size)
            for task, size in enumerate(self._sizes)
            if task not in self._finished
        )
        new_steps = int(steps_of_finished + steps_of_running) - self._reported_steps
        if new_steps > 0:
            self._reported_steps += new_steps
            self._advance(new_steps)

    def periodic_updates(self) -> AbstractContextManager[None]:
        """Show the progress twice a second while the block runs."""
        return run_in_background(self.show, UPDATE_SECONDS)


def start_counting(counts: MutableSequence[int]) -> None:
    """Prepare a worker process to count pauses in shared memory."""
    global _COUNTS  # a worker has one set of tasks
    _COUNTS = counts


def work_in_worker[R](task: int, work: Callable[..., R], *arguments: Any) -> R:
    """Do the work of a task in a worker process, and count its pauses for the progress bar."""

    def count() -> None:
        """Count a pause of `task`; the parent process reads the count."""
        _COUNTS[task] += 1

    with pausing(count):  # the work calls `count` at each pause
        return work(*arguments)


def work_here[R](progress: TaskProgress, task: int, work: Callable[..., R], *arguments: Any) -> R:
    """Do the work of a task in this process, and show its progress meanwhile."""
    last_update = time.monotonic()

    def count() -> None:
        """Count a small step of `task`. Show the progress if `UPDATE_SECONDS` have passed."""
        nonlocal last_update
        progress.counts[task] += 1
        if time.monotonic() - last_update > UPDATE_SECONDS:
            last_update = time.monotonic()
            progress.show()

    with pausing(count):  # the work calls `count` at each pause
        return work(*arguments)
