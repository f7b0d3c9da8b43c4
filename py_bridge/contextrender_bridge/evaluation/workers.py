"""Replays many runs in several processes, and shows the progress on standard error."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.engine.models.embeddings import load_embedder
from contextrender_bridge.evaluation.cases import Case
from contextrender_bridge.evaluation.in_process import replay_run
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.scores import RunScore
from contextrender_bridge.evaluation.task_progress import (
    TaskProgress,
    start_counting,
    work_here,
    work_in_worker,
)

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
