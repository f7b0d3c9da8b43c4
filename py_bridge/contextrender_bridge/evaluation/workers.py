"""Replaying many runs in process, on several processors, and telling on stderr how far that is."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.engine.models.embeddings import load_embedder
from contextrender_bridge.evaluation.cases import Case
from contextrender_bridge.evaluation.in_process import replay_run
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.scores import RunScore
from contextrender_bridge.evaluation.task_progress import (
    TaskProgress,
    counted,
    counted_here,
    start_counting,
)

PLAIN_LINES = 5


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with the number of steps just done."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain(console, what, total)
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda steps: bar.advance(task, steps)


def _plain(console: Console, what: str, total: int) -> Callable[[int], None]:
    done = lines = 0

    def advance(steps: int) -> None:
        nonlocal done, lines
        done += steps
        reached = PLAIN_LINES * done // max(total, 1)
        if reached > lines:
            lines = reached
            console.print(f"{what}: {done} of {total}", highlight=False)

    return advance


FEWEST_FOR_WORKERS = 400
"""Renderings below which starting processes takes longer than it saves."""


def replay_runs(
    runs: Sequence[Run], cases: Sequence[Case], workers: int | None, *, closed_loop: bool = False
) -> list[RunScore]:
    """The scores of all runs, in their order. `workers` is the number of processes at most.

    With `closed_loop` also those of an agent that reacts.
    """
    sizes = [run.invocations * len(cases) for run in runs]
    if workers is None and sum(sizes) < FEWEST_FOR_WORKERS:
        workers = 1
    tasks = [(run, cases, closed_loop) for run in runs]
    return spread("Replaying model calls", _replay, tasks, sizes, workers)


def spread[R](
    what: str,
    work: Callable[..., R],
    tasks: Sequence[tuple[Any, ...]],
    sizes: Sequence[int],
    workers: int | None,
) -> list[R]:
    """What the work gives with every task's arguments, in their order, with a progress bar.

    Here, or in so many processes at most (None: one a processor), the largest task first.
    """
    workers = min(workers or os.cpu_count() or 1, len(tasks))
    found: dict[int, R] = {}
    with progress(what, sum(sizes)) as advance:
        done = TaskProgress(sizes, advance)
        if workers <= 1:
            for number, task in enumerate(tasks):
                found[number] = counted_here(done, number, work, *task)
                done.finish(number)
            return list(found.values())
        spawn = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(workers, spawn, start_counting, (done.counts,))
        try:
            futures = _submit(pool, work, tasks, sizes)
            with done.shown():
                for future in as_completed(futures):
                    found[futures[future]] = future.result()
                    done.finish(futures[future])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        pool.shutdown()
    return [found[number] for number in range(len(tasks))]


def _submit[R](
    pool: ProcessPoolExecutor,
    work: Callable[..., R],
    tasks: Sequence[tuple[Any, ...]],
    sizes: Sequence[int],
) -> dict[Future[R], int]:
    """Hands out the largest first. The workers, started here, leave Ctrl-C to their parent."""
    largest_first = sorted(range(len(tasks)), key=lambda number: -sizes[number])
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return {
            pool.submit(counted, number, work, *tasks[number]): number for number in largest_first
        }
    finally:
        signal.signal(signal.SIGINT, before)


def _replay(run: Run, cases: Sequence[Case], closed_loop: bool) -> RunScore:
    embedder = load_embedder(current_settings().embed_model)
    return replay_run(run, cases, embedder, closed_loop=closed_loop)
