"""Replays recorded runs to find what several settings would have cost and omitted."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from contextrender_bridge.audit.run_reader import RecordedRun
from contextrender_bridge.base.errors import ContextRenderError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.base.worth import pricing_rule_of
from contextrender_bridge.engine.text.transcript import check_messages
from contextrender_bridge.evaluation.advice import BUDGETS, POLICIES, first_calls, recommend
from contextrender_bridge.evaluation.cases import cases_of
from contextrender_bridge.evaluation.compaction_score import CompactionScore
from contextrender_bridge.evaluation.compactions import MAX_MEASURED, measure_sample
from contextrender_bridge.evaluation.runs import Run, compactions_of
from contextrender_bridge.evaluation.verdict import Verdict
from contextrender_bridge.evaluation.workers import replay_runs

CHARS_PER_TOKEN = 4
MIN_COMPARED_TOKENS = 8_000
SHORTENED = 0.6
"""A prompt with less than this share of the history's tokens did not have the full history."""


@dataclass(frozen=True)
class ReplayReport:
    """The verdicts on the replayed runs, one per provider. The provider with most calls is first.

    `runs` and `calls` count the replayed runs and calls.
    """

    verdicts: Sequence[Verdict] = ()
    runs: int = 0
    calls: int = 0
    left_out: int = 0
    """The number of calls that could be replayed, but were not."""
    shortened: int = 0
    """The number of runs whose prompts did not have the full history; they are not replayed."""
    compactions: CompactionScore | None = None
    """The score of what the agents' own compactions lost; None if there were none."""
    hidden_summaries: int = 0
    """The number of compactions whose summary is not recorded as text."""
    estimated: int = 0
    """The number of `compactions` without a record of the files that the agent put back."""

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the provider with the most calls; None if no run was replayed."""
        return next(iter(self.verdicts), None)


def replay(
    recorded_runs: Sequence[RecordedRun],
    max_calls: int,
    workers: int | None,
    max_compactions: int = MAX_MEASURED,
) -> ReplayReport:
    """Replay the newest runs, up to `max_calls` calls, with a progress bar, and return the report.

    At most `max_compactions` of the agents' compactions are measured, in a random sample.

    Only runs with several calls and a tool result are replayed, and only runs whose prompts had the
    full history. The run that would exceed the limit is cut after its first calls. Each provider
    gets a verdict of its own, because the providers bill by different rules.
    """
    # Select the runs to replay, the newest first, and cut the last one.
    full_runs = [run for run in recorded_runs if not is_sent_shortened(run)]
    replayable_runs = _replayable(full_runs)
    runs = _first_runs(replayable_runs, max_calls)
    calls = _call_count(runs)
    # Replay them under every policy and budget, with repeated calls for missing results.
    replay_function = partial(replay_runs, workers=workers, closed_loop=True)
    cases = cases_of(POLICIES, BUDGETS)
    compacted_runs = _compacted_runs(recorded_runs)
    compactions = compactions_of(compacted_runs)
    score = measure_sample(compactions, workers, max_compactions) if compacted_runs else None
    with_estimate = {run.id for run in recorded_runs if run.has_estimate}
    return ReplayReport(
        [recommend(group, cases, replay_function) for group in _by_provider(runs)],
        runs=len(runs),
        calls=calls,
        left_out=_call_count(replayable_runs) - calls,
        shortened=len(recorded_runs) - len(full_runs),
        compactions=score,
        hidden_summaries=sum(run.hides_summary for run in recorded_runs),
        estimated=sum(compaction.run in with_estimate for compaction in compactions),
    )


def _replayable(recorded_runs: Iterable[RecordedRun]) -> list[Run]:
    """Return the runs that can be replayed, the newest first.

    They have several calls, a tool result and valid messages: others have nothing to omit.
    """
    runs = [
        run
        for recorded_run in recorded_runs
        if recorded_run.calls > 1
        and any(message["role"] == "tool" for message in recorded_run.messages)
        and (run := run_of(recorded_run))
    ]
    return sorted(runs, key=lambda run: max(run.times, default=0.0), reverse=True)


def _first_runs(runs: Sequence[Run], max_calls: int) -> list[Run]:
    """Return the first runs, with at most `max_calls` calls in all. The last run may be cut."""
    selected: list[Run] = []
    remaining_calls = max_calls
    for run in runs:
        if remaining_calls <= 0:
            break
        messages, _ = first_calls(run.messages, remaining_calls)
        times = run.times[: len(messages)]
        selected.append(dataclasses.replace(run, messages=list(messages), times=times))
        remaining_calls -= selected[-1].invocations
    return selected


def _by_provider(runs: Sequence[Run]) -> list[list[Run]]:
    """Return the runs grouped by their provider's billing rule, the group with most calls first."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(pricing_rule_of([run.model]), []).append(run)
    return sorted(groups.values(), key=_call_count, reverse=True)


def _call_count(runs: Iterable[Run]) -> int:
    return sum(run.invocations for run in runs)


def is_sent_shortened(run: RecordedRun) -> bool:
    """Return whether the last call's prompt was clearly smaller than the recorded history.

    `wrap` and some agents send shortened prompts. Such a run is not replayed, because its calls
    were never made with the full history.
    """
    # If the last usage is the sum of several calls, no prompt's size is known.
    if not run.usage or run.usage[-1].calls != 1:
        return False
    answers = [
        position for position, message in enumerate(run.messages) if message["role"] == "assistant"
    ]
    if not answers:
        return False
    history = run.messages[: answers[-1]]
    history_tokens = sum(_characters(message) for message in history) / CHARS_PER_TOKEN
    is_long_enough = history_tokens > MIN_COMPARED_TOKENS  # a shorter history is no evidence
    return is_long_enough and run.usage[-1].prompt < SHORTENED * history_tokens


def _characters(message: Json) -> int:
    """Return the number of characters of a message's content and calls."""
    content = message.get("content")
    text = content if isinstance(content, str) else json.dumps(content or "")
    return len(text) + sum(len(json.dumps(call)) for call in message.get("tool_calls") or ())


def _compacted_runs(recorded_runs: Sequence[RecordedRun]) -> list[Run]:
    """Return all runs of the sessions that have a compaction."""
    compacted_sessions = {(run.source, run.task) for run in recorded_runs if run.continues}
    return [
        run
        for recorded_run in recorded_runs
        if (recorded_run.source, recorded_run.task) in compacted_sessions
        and (run := run_of(recorded_run))
    ]


def run_of(recorded_run: RecordedRun) -> Run | None:
    """Return a recorded run in the form that is replayed; None if its messages are invalid."""
    try:
        check_messages(recorded_run.messages, 0)
    except ContextRenderError:
        return None
    has_all_times = all(recorded_run.times)
    # The times must not decrease, but clocks may disagree. Raise each to the latest before it.
    times = list(accumulate(recorded_run.times, max)) if has_all_times else []
    # A compaction without a readable summary cannot be measured. Hide it: then the run continues
    # no other run.
    continues = "" if recorded_run.hides_summary else recorded_run.continues
    return Run(
        recorded_run.id,
        recorded_run.source,
        recorded_run.model,
        recorded_run.messages,
        recorded_run.task,
        times=times,
        continues=continues,
    )
