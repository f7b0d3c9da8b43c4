"""Replaying many runs in process, on several processors, and telling on stderr how far that is."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

from contextrender_bridge.base.settings import current_settings
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from engine.models.embeddings import load_embedder
from evaluation.cases import Case
from evaluation.in_process import replay_run
from evaluation.runs import Run
from evaluation.score_cache import ScoreCache
from evaluation.scores import RunScore

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

Advance = Callable[[int], None]
"""Told how many more renderings are done."""

Task = tuple[Run, Sequence[Case], bool]
"""A run, its cases, and whether they are replayed in a closed loop too."""


def replay_runs(
    runs: Sequence[Run],
    cases: Sequence[Case],
    workers: int | None,
    advance: Advance | None = None,
    kept: ScoreCache | None = None,
    *,
    closed_loop: bool = False,
) -> list[RunScore]:
    """The scores of all runs, in their order. `workers` is the number of processes at most.

    Without `advance` a bar tells how far it is.
    With `closed_loop` also those of an agent that reacts; `kept` must then be for such scores.
    With `kept`, what is kept there is not replayed, and what is replayed is kept run by run.
    """
    if advance is None:
        total = sum(run.invocations for run in runs) * len(cases)
        with progress("Replaying model calls", total) as advance:
            return replay_runs(runs, cases, workers, advance, kept, closed_loop=closed_loop)
    scores: dict[int, RunScore] = {}
    if kept is None:
        _replay_all(
            [(run, cases, closed_loop) for run in runs], workers, advance, scores.__setitem__
        )
        return [scores[index] for index in range(len(runs))]
    missing = [kept.missing(run, cases) for run in runs]
    known = zip(runs, missing, strict=True)
    advance(sum(run.invocations * (len(cases) - len(lacking)) for run, lacking in known))
    tasks = [number for number, lacking in enumerate(missing) if lacking]

    def done(task: int, score: RunScore) -> None:
        scores[tasks[task]] = score
        kept.put(runs[tasks[task]], score)

    todo = [(runs[n], missing[n], closed_loop) for n in tasks]
    _replay_all(todo, workers, advance, done)
    return [kept.get(run, cases, scores.get(number)) for number, run in enumerate(runs)]


def _replay_all(
    tasks: Sequence[Task],
    workers: int | None,
    advance: Advance,
    done: Callable[[int, RunScore], None],
) -> None:
    """Replays every task's run under its cases; tells `done` its number and the score."""

    def told(number: int, score: RunScore) -> None:
        done(number, score)
        advance(sizes[number])

    sizes = [run.invocations * len(cases) for run, cases, _ in tasks]
    few = workers is None and sum(sizes) < FEWEST_FOR_WORKERS
    processes = 1 if few else workers or os.cpu_count() or 1
    spread(_replay, tasks, [run.invocations for run, *_ in tasks], processes, told)


def spread[R](
    work: Callable[..., R],
    tasks: Sequence[tuple[Any, ...]],
    sizes: Sequence[int],
    workers: int,
    done: Callable[[int, R], object],
) -> None:
    """Does the work with every task's arguments; `done` is told each number.

    Here, in their order, or in at most so many processes, the largest first.
    """
    if min(workers, len(tasks)) <= 1:
        for number, task in enumerate(tasks):
            done(number, work(*task))
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(tasks)), context)
    try:
        futures = _submit(pool, work, tasks, sizes)
        for future in as_completed(futures):
            done(futures[future], future.result())
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    pool.shutdown()


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
        return {pool.submit(work, *tasks[number]): number for number in largest_first}
    finally:
        signal.signal(signal.SIGINT, before)


def _replay(run: Run, cases: Sequence[Case], closed_loop: bool) -> RunScore:
    embedder = load_embedder(current_settings().embed_model)
    return replay_run(run, cases, embedder, closed_loop=closed_loop)
