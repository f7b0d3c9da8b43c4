"""Replays the runs: what the recommended setting would have cost and hidden."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from contextrender_bridge.audit.run_reader import Recorded
from contextrender_bridge.base.errors import ContextRenderError
from contextrender_bridge.engine.text.transcript import check_messages
from contextrender_bridge.evaluation.advice import BUDGETS, POLICIES, first_calls, recommend
from contextrender_bridge.evaluation.cases import cases_of
from contextrender_bridge.evaluation.compactions import CompactionScore, measure_runs
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.verdict import Verdict
from contextrender_bridge.evaluation.workers import replay_runs


@dataclass(frozen=True)
class Replayed:
    """The verdict on `calls` of `runs` with tool results; None where there is none.

    `left_out` are calls of such runs that were not replayed.
    `compactions` is what the agents' own lost; None where they never compacted.
    """

    verdict: Verdict | None
    runs: int
    calls: int
    left_out: int
    compactions: CompactionScore | None = None


def replay(found: Sequence[Recorded], most: int, workers: int | None) -> Replayed:
    """Replays the newest runs that have tool results, of `most` calls, with a progress bar.

    Of a run that would exceed that, the first calls are replayed.
    """
    useful = [
        made
        for one in found
        if one.calls > 1
        and any(message["role"] == "tool" for message in one.messages)
        and (made := _run(one))
    ]
    useful.sort(key=lambda run: max(run.times, default=0.0), reverse=True)
    runs, left = list[Run](), most
    for run in useful:
        if left > 0:
            messages = run.messages[: len(first_calls(run.messages, left)[0])]
            runs.append(
                dataclasses.replace(run, messages=messages, times=run.times[: len(messages)])
            )
            left -= runs[-1].invocations
    lost = _lost(found, workers)
    if not runs:
        return Replayed(None, 0, 0, 0, lost)
    replayed = partial(replay_runs, workers=workers, closed_loop=True)
    verdict = recommend(runs, cases_of(POLICIES, BUDGETS), replayed)
    left_out = sum(run.invocations for run in useful) - (most - left)
    return Replayed(verdict, len(runs), most - left, left_out, lost)


def _lost(found: Sequence[Recorded], workers: int | None) -> CompactionScore | None:
    """What compactions lost, in the sessions that had any."""
    tasks = {(run.source, run.task) for run in found if run.continues}
    runs = [made for one in found if (one.source, one.task) in tasks and (made := _run(one))]
    return measure_runs(runs, workers) if runs else None


def _run(one: Recorded) -> Run | None:
    try:
        check_messages(one.messages, 0)
    except ContextRenderError:
        return None
    times = list(accumulate(one.times, max)) if all(one.times) else []
    return Run(
        one.id, one.source, one.model, one.messages, one.task, times=times, continues=one.continues
    )
