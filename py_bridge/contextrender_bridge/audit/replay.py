"""Replays the runs: what the recommended setting would have cost and hidden."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from contextrender_bridge.audit.run_reader import Recorded
from contextrender_bridge.base.errors import ContextRenderError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.base.worth import rule_of
from contextrender_bridge.engine.text.transcript import check_messages
from contextrender_bridge.evaluation.advice import BUDGETS, POLICIES, first_calls, recommend
from contextrender_bridge.evaluation.cases import cases_of
from contextrender_bridge.evaluation.compactions import CompactionScore, measure_runs
from contextrender_bridge.evaluation.runs import Run
from contextrender_bridge.evaluation.verdict import Verdict
from contextrender_bridge.evaluation.workers import replay_runs

CHARS_PER_TOKEN = 4
LEAST_TOKENS = 8_000
SHORTENED = 0.6
"""A prompt of less than this share of the history's tokens was not all of it."""


@dataclass(frozen=True)
class Replayed:
    """The verdicts on `calls` of `runs` with tool results, one per provider, the largest first.

    `left_out` are calls of such runs that were not replayed. `shortened` are runs whose calls were
    sent shortened already. `compactions` is what the agents' own lost; None if they never
    compacted. Of `hidden_summaries` the agent's files have no words, and `estimated` are those of
    which the files put back are not recorded.
    """

    verdicts: Sequence[Verdict] = ()
    runs: int = 0
    calls: int = 0
    left_out: int = 0
    shortened: int = 0
    compactions: CompactionScore | None = None
    hidden_summaries: int = 0
    estimated: int = 0

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on most of the calls; None if nothing was replayed."""
        return next(iter(self.verdicts), None)


def replay(found: Sequence[Recorded], most: int, workers: int | None) -> Replayed:
    """Replay the newest runs that have tool results, of `most` calls, with a progress bar.

    Of a run that would exceed that, the first calls are replayed. Runs of models of different
    providers are judged apart, since the providers bill by different rules.
    """
    shortened = {id(one) for one in found if is_sent_shortened(one)}
    useful = [
        made
        for one in found
        if one.calls > 1
        and id(one) not in shortened
        and any(message["role"] == "tool" for message in one.messages)
        and (made := run_of(one))
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
    replayed = partial(replay_runs, workers=workers, closed_loop=True)
    by_rule: dict[str, list[Run]] = {}
    for run in runs:
        by_rule.setdefault(rule_of([run.model]), []).append(run)
    groups = sorted(by_rule.values(), key=lambda group: -sum(run.invocations for run in group))
    calls = sum(run.invocations for run in runs)
    return Replayed(
        [recommend(group, cases_of(POLICIES, BUDGETS), replayed) for group in groups],
        len(runs),
        calls,
        sum(run.invocations for run in useful) - calls,
        len(shortened),
        _compactions(found, workers),
        sum(one.hides_summary for one in found),
        sum(one.has_estimate for one in found),
    )


def is_sent_shortened(run: Recorded) -> bool:
    """Return whether the last call's prompt was clearly smaller than the history that is recorded.

    `wrap` does that, and some agents do: a replay of the whole history would be of other calls.
    """
    if not run.usage or run.usage[-1].calls != 1:
        return False
    answers = [at for at, message in enumerate(run.messages) if message["role"] == "assistant"]
    if not answers:
        return False
    before = run.messages[: answers[-1]]
    tokens = sum(_characters(message) for message in before) / CHARS_PER_TOKEN
    return tokens > LEAST_TOKENS and run.usage[-1].prompt < SHORTENED * tokens


def _characters(message: Json) -> int:
    content = message.get("content")
    text = content if isinstance(content, str) else json.dumps(content or "")
    return len(text) + sum(len(json.dumps(call)) for call in message.get("tool_calls") or ())


def _compactions(found: Sequence[Recorded], workers: int | None) -> CompactionScore | None:
    """Return what compactions lost, in the sessions that had any.

    What follows a summary without words is the beginning of a history of its own.
    """
    tasks = {(run.source, run.task) for run in found if run.continues}
    runs = [
        dataclasses.replace(made, continues="") if one.hides_summary else made
        for one in found
        if (one.source, one.task) in tasks and (made := run_of(one))
    ]
    return measure_runs(runs, workers) if runs else None


def run_of(one: Recorded) -> Run | None:
    """Return a run to replay; None if its messages cannot be."""
    try:
        check_messages(one.messages, 0)
    except ContextRenderError:
        return None
    times = list(accumulate(one.times, max)) if all(one.times) else []
    return Run(
        one.id, one.source, one.model, one.messages, one.task, times=times, continues=one.continues
    )
