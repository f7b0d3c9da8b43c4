"""Replays many runs in several processes, and shows the progress on standard error."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
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
from contextrender_bridge.evaluation.cases import Case
from contextrender_bridge.evaluation.in_process import replay_run
from contextrender_bridge.evaluation.progress import count_into, do_task
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.scores import RunScore

UPDATE_SECONDS: Final = 0.5
PLAIN_LINES: Final = 5
"""The number of progress lines that are printed if standard error is not a terminal."""
MIN_CALLS_FOR_WORKERS: Final = 400
"""Below this number of calls, starting processes takes more time than they save."""


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


def replay_runs(
    runs: Sequence[Run], cases: Sequence[Case], workers: int | None, *, closed_loop: bool = False
) -> list[RunScore]:
    """Return the scores of all runs, in their order. `workers` limits the number of processes.

    If `workers` is None, a small replay uses this process alone, and another one a process per
    processor. With `closed_loop` the scores include a replay with an agent that fetches missing
    results again.
    """
    calls = [run.invocations * len(cases) for run in runs]
    if workers is None and sum(calls) < MIN_CALLS_FOR_WORKERS:
        workers = 1
    tasks = [(run, cases, closed_loop) for run in runs]
    # The closed loop replays each call once more.
    sizes = [count * (2 if closed_loop else 1) for count in calls]
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
    finished_steps = multiprocessing.get_context("spawn").Value("q", 0)
    shown_steps = 0

    def show() -> None:
        """Add the steps that have finished since the last call to the progress bar."""
        nonlocal shown_steps
        if new_steps := finished_steps.value - shown_steps:
            shown_steps += new_steps
            advance(new_steps)

    with show_progress(description, sum(sizes)) as advance:
        with run_in_background(show, UPDATE_SECONDS):
            if workers > 1:
                results = _run_in_processes(workers, work, tasks, sizes, finished_steps)
            else:
                count_into(finished_steps)
                pairs = zip(sizes, tasks, strict=True)
                results = [do_task(size, work, *task) for size, task in pairs]
        show()
    return results


def _run_in_processes[R](
    workers: int,
    work: Callable[..., R],
    tasks: Sequence[tuple[Any, ...]],
    sizes: Sequence[int],
    finished_steps: Any,
) -> list[R]:
    """Do the tasks in worker processes, the largest first; return the results in the tasks' order.

    On an error or Ctrl-C, terminate the processes.
    """
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, spawn, count_into, (finished_steps,))
    largest_first = sorted(range(len(tasks)), key=lambda number: -sizes[number])
    try:
        # The pool starts its processes at the first submission. They inherit this handler, so they
        # ignore Ctrl-C. This process handles it and terminates them.
        previous_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            futures = {
                number: pool.submit(do_task, sizes[number], work, *tasks[number])
                for number in largest_first
            }
        finally:
            signal.signal(signal.SIGINT, previous_handler)
        for future in as_completed(futures.values()):
            future.result()  # raises the error of a task
    except BaseException:
        # Cancel the tasks that wait, and terminate the processes that work.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    pool.shutdown()
    return [futures[number].result() for number in range(len(tasks))]


def _replay(run: Run, cases: Sequence[Case], closed_loop: bool) -> RunScore:
    """Replay one run with the embedder of the settings."""
    embedder = load_embedder(current_settings().embed_model)
    return replay_run(run, cases, embedder, closed_loop=closed_loop)
