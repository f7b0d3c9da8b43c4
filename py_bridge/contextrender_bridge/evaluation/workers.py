"""Replays many runs in several processes, and shows the progress on standard error.

Long because a progress bar also moves within a long task. A computation pauses at each of its small
steps: it calls `let_requests_run` (engine.replay). A worker counts the pauses in memory that all
processes share. The parent reads the counts twice a second.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from contextrender_bridge.background import run_in_background
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.engine.models.embeddings import load_embedder
from contextrender_bridge.engine.replay import pausing
from contextrender_bridge.evaluation.cases import Case
from contextrender_bridge.evaluation.in_process import replay_run
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.scores import RunScore

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


PLAIN_LINES = 5
"""The number of progress lines that are printed if standard error is not a terminal."""


@contextmanager
def show_progress(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar of `total` steps on standard error while the block runs.

    Yield a function: the block calls it with the number of steps that have finished since its last
    call. Until the first call, the bar pulses.
    """
    console = Console(stderr=True)
    if not console.is_terminal:  # print a few lines instead of a bar
        yield _plain_progress(console, description, total)
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(description, total=total, start=False)

        def advance(steps: int) -> None:
            """Add finished steps."""
            bar.start_task(task)
            bar.advance(task, steps)

        yield advance


def show_waiting(description: str) -> AbstractContextManager[object]:
    """Return a context manager that shows on a terminal that its block takes time.

    It shows a pulsing bar on standard error. Use it for a block whose steps cannot be counted.
    """
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    bar.add_task(description, total=None)
    return bar


def _plain_progress(console: Console, description: str, total: int) -> Callable[[int], None]:
    """Return a function that adds finished steps, and prints the progress now and then.

    It prints `PLAIN_LINES` lines at most, one after each equal share of the `total` steps.
    """
    finished_steps = printed_lines = 0

    def advance(steps: int) -> None:
        """Add finished `steps`, and print a line if another one is due."""
        nonlocal finished_steps, printed_lines
        finished_steps += steps
        due_lines = PLAIN_LINES * finished_steps // max(total, 1)
        if due_lines > printed_lines:
            printed_lines = due_lines
            console.print(f"{description}: {finished_steps} of {total}", highlight=False)

    return advance


MIN_CALLS_FOR_WORKERS = 400
"""Below this number of calls, starting processes takes more time than they save."""


def replay_runs(
    runs: Sequence[Run], cases: Sequence[Case], workers: int | None, *, closed_loop: bool = False
) -> list[RunScore]:
    """Return the scores of all runs, in their order. `workers` limits the number of processes.

    If `workers` is None, a small replay uses this process alone, and another one a process per
    processor. With `closed_loop` the scores include a replay with an agent that fetches missing
    results again.
    """
    sizes = [run.invocations * len(cases) for run in runs]
    if workers is None and sum(sizes) < MIN_CALLS_FOR_WORKERS:
        workers = 1
    tasks = [(run, cases, closed_loop) for run in runs]
    return run_tasks("Replaying model calls", _replay, tasks, sizes, workers)


def run_tasks[R](
    description: str,
    work: Callable[..., R],
    tasks: Sequence[tuple[Any, ...]],
    sizes: Sequence[int],
    workers: int | None,
) -> list[R]:
    """Call `work` with the arguments of each task, and return the results in the tasks' order.

    Show a progress bar, for which `sizes` has the number of steps of each task. Use at most
    `workers` processes, or one per processor if it is None. A single worker is this process.
    """
    workers = min(workers or os.cpu_count() or 1, len(tasks))
    with show_progress(description, sum(sizes)) as advance:
        task_progress = TaskProgress(sizes, advance)
        if workers > 1:
            return _run_in_processes(workers, work, tasks, sizes, task_progress)
        results = []
        for number, task in enumerate(tasks):
            results.append(work_here(task_progress, number, work, *task))
            task_progress.finish(number)
        return results


def _run_in_processes[R](
    workers: int,
    work: Callable[..., R],
    tasks: Sequence[tuple[Any, ...]],
    sizes: Sequence[int],
    task_progress: TaskProgress,
) -> list[R]:
    """Do the tasks in worker processes, and return their results in the tasks' order.

    On an error or Ctrl-C, terminate the processes.
    """
    results: dict[int, R] = {}
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, spawn, start_counting, (task_progress.counts,))
    try:
        # Collect the results in the order in which the tasks finish.
        futures = _submit(pool, work, tasks, sizes)
        with task_progress.periodic_updates():
            for future in as_completed(futures):
                number = futures[future]
                results[number] = future.result()
                task_progress.finish(number)
    except BaseException:
        # Cancel the tasks that wait, and terminate the processes that work.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    pool.shutdown()
    return [results[number] for number in range(len(tasks))]


def _submit[R](
    pool: ProcessPoolExecutor,
    work: Callable[..., R],
    tasks: Sequence[tuple[Any, ...]],
    sizes: Sequence[int],
) -> dict[Future[R], int]:
    """Submit the tasks, the largest first. Map each future to the number of its task."""
    largest_first = sorted(range(len(tasks)), key=lambda number: -sizes[number])
    # The pool starts its processes at the first submission. They inherit this handler, so they
    # ignore Ctrl-C. This process handles it and terminates them.
    previous_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return {
            pool.submit(work_in_worker, number, work, *tasks[number]): number
            for number in largest_first
        }
    finally:
        signal.signal(signal.SIGINT, previous_handler)


def _replay(run: Run, cases: Sequence[Case], closed_loop: bool) -> RunScore:
    """Replay one run with the embedder of the settings."""
    embedder = load_embedder(current_settings().embed_model)
    return replay_run(run, cases, embedder, closed_loop=closed_loop)
