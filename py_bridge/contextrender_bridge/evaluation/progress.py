"""Counts the finished steps of tasks, in memory that processes share, so that progress is shown."""

from collections.abc import Callable
from typing import Any

_counter: Any = None
"""The number of finished steps of all tasks, a value of `multiprocessing`; None without tasks."""
_remaining_steps = 0
"""The number of steps of this process's task that are not finished."""


def count_into(counter: Any) -> None:
    """Add the finished steps of this process's tasks to a counter, which processes may share."""
    global _counter  # a process works for one counter at a time
    _counter = counter


def do_task[R](steps: int, work: Callable[..., R], *arguments: Any) -> R:
    """Do the work of a task, and count its steps: at the end, those not yet counted."""
    global _remaining_steps
    _remaining_steps = steps
    result = work(*arguments)
    finish_steps(_remaining_steps)
    return result


def finish_steps(count: int = 1) -> None:
    """Count finished steps of the current task, at most as many as remain. Ignore other steps."""
    global _remaining_steps
    new_steps = min(count, _remaining_steps)
    if new_steps:
        _remaining_steps -= new_steps
        with _counter.get_lock():
            _counter.value += new_steps
