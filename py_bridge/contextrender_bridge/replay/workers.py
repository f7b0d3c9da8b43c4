"""Replaying many runs in process, on several processors; the result is the same on any number."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed

from contextrender_bridge.replay.in_process import replay_run
from contextrender_bridge.replay.runs import Run
from contextrender_bridge.replay.scores import Case, RunScore
from engine.embeddings import load_embedder
from engine.settings import from_environment

FEWEST_FOR_WORKERS = 400
"""Renderings below which starting processes takes longer than it saves."""

Advance = Callable[[int], None]
"""Told how many more renderings are done."""


def replay_runs(
    runs: Sequence[Run], cases: Sequence[Case], workers: int | None, advance: Advance
) -> list[RunScore]:
    """The scores of all runs, in their order. `workers` is the number of processes at most."""
    renderings = sum(run.invocations for run in runs) * len(cases)
    wanted = min(workers or os.cpu_count() or 1, len(runs))
    if wanted <= 1 or (workers is None and renderings < FEWEST_FOR_WORKERS):
        scores = []
        for run in runs:
            scores.append(_replay(run, cases))
            advance(run.invocations * len(cases))
        return scores
    return _replay_on(wanted, runs, cases, advance)


def _replay_on(
    workers: int, runs: Sequence[Run], cases: Sequence[Case], advance: Advance
) -> list[RunScore]:
    scores: dict[int, RunScore] = {}
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context)
    try:
        futures = _submit(pool, runs, cases)
        for future in as_completed(futures):
            index = futures[future]
            scores[index] = future.result()
            advance(runs[index].invocations * len(cases))
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    pool.shutdown()
    return [scores[index] for index in range(len(runs))]


def _submit(
    pool: ProcessPoolExecutor, runs: Sequence[Run], cases: Sequence[Case]
) -> dict[Future[RunScore], int]:
    """Hands out the longest runs first. The workers, started here, leave Ctrl-C to their parent."""
    longest_first = sorted(range(len(runs)), key=lambda i: -runs[i].invocations)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return {pool.submit(_replay, runs[index], cases): index for index in longest_first}
    finally:
        signal.signal(signal.SIGINT, before)


def _replay(run: Run, cases: Sequence[Case]) -> RunScore:
    return replay_run(run, cases, load_embedder(from_environment().embed_model))
