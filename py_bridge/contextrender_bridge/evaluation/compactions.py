"""Measures what agents' own compactions lost, and what prompts would have shown of it.

An agent that compacts continues with a summary of its history. A later step is measured if it used
values that only results from before the compaction have (docs/evaluation.md). Long because each
step is measured with the summary and with prompts, of which each needs its own history.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.models.embeddings import NoEmbedder
from contextrender_bridge.engine.parameters import AUTO, budget_name
from contextrender_bridge.engine.replay.recall_measures import RecallTrace, unseen_tokens
from contextrender_bridge.engine.text.tokens import counter_for
from contextrender_bridge.evaluation.cases import Case
from contextrender_bridge.evaluation.closed_loop import calls_of
from contextrender_bridge.evaluation.compaction_score import (
    ALL_STEPS,
    SUMMARY,
    WITH_REREADS,
    CompactionScore,
)
from contextrender_bridge.evaluation.in_process import Renderer
from contextrender_bridge.evaluation.progress import finish_steps
from contextrender_bridge.evaluation.runs import RunCompaction
from contextrender_bridge.evaluation.scores import Prompt
from contextrender_bridge.evaluation.workers import run_tasks

STEPS: Final = 60
"""The number of turns after a compaction that are measured."""
MAX_MEASURED: Final = 24
"""The largest number of compactions that are measured, unless the caller names another."""
BUDGETS: Final = (24_000, 48_000, 96_000, AUTO)


def measure(compactions: Sequence[RunCompaction], cases: Sequence[Case]) -> CompactionScore:
    """Return what the summaries and the prompts of every case have of the values that steps used.

    Up to `STEPS` turns after each compaction are measured. For a case, the session's calls are
    rendered without the results that the agent read again, and only what a prompt shows from before
    the compaction counts. The cases' policies must not embed.
    """
    count = len(compactions)
    score = CompactionScore(count, measured=count, budgets=[_budget_key(case) for case in cases])
    for compaction in compactions:
        _measure(compaction, cases, score)
    return score


def measure_sample(
    compactions: Sequence[RunCompaction], workers: int | None = None, limit: int = MAX_MEASURED
) -> CompactionScore:
    """Measure these compactions under the agents' default, with a progress bar.

    If there are more than `limit`, a random sample of this number is measured. It is the same
    sample at every call.
    """
    cases = [Case("contextrender_cache_aware", budget, agent_defaults=True) for budget in BUDGETS]
    sample = compactions
    if len(compactions) > limit:
        sample = Random(limit).sample(compactions, limit)  # a fixed seed
    score = measure([], cases)  # an empty score
    score.count, score.measured = len(compactions), len(sample)
    sizes = [len(compaction.before) * len(cases) for compaction in sample]
    tasks = [([compaction], cases) for compaction in sample]
    description = f"Following compactions, messages at {len(cases)} budgets"
    for part in run_tasks(description, measure, tasks, sizes, workers):
        score.add(part)
    return score


def _budget_key(case: Case) -> str:
    """Return the key under which the score counts the prompts of a case."""
    return str(budget_name(case.budget))


def _measure(compaction: RunCompaction, cases: Sequence[Case], score: CompactionScore) -> None:
    """Measure one compaction and add its counts to `score`.

    The prompts are rendered from a history without the results that the agent read again, because
    an agent with such prompts need not read them again.
    """
    values_by_step = dict(used_values(compaction))
    rereads = _reread_results(compaction, values_by_step)
    _count_rereads(compaction, rereads, score)
    # Count which steps had their values in the summary, and in the summary or a later message.
    for position, values in values_by_step.items():
        messages = [*compaction.summary, *compaction.after[:position]]
        score.add_step(ALL_STEPS, values, frozenset())
        score.add_step(SUMMARY, values, unseen_tokens(values, compaction.summary))
        score.add_step(WITH_REREADS, values, unseen_tokens(values, messages))

    # Prompts after the last measured step are not needed.
    last_step = max(values_by_step, default=_first_answer(compaction.after))
    after_without_rereads = _without(compaction.after, rereads)[: last_step + 1]
    for case in cases:
        _count_prompts(compaction, after_without_rereads, values_by_step, case, score)


def _count_rereads(
    compaction: RunCompaction, rereads: Collection[int], score: CompactionScore
) -> None:
    """Count the results that the agent read again, and the tokens of these results and calls.

    `rereads` has their positions in `compaction.after`.
    """
    counter = counter_for(compaction.model or None)
    calls = calls_of(compaction.after)
    tokens = sum(counter.message(compaction.after[position]) for position in rereads)
    tokens += sum(counter.call(calls[position][1]) for position in rereads if position in calls)
    score.read_calls += len(rereads)
    score.read_tokens[compaction.model] += tokens


def _count_prompts(
    compaction: RunCompaction,
    after: Sequence[Json | None],
    values_by_step: Mapping[int, frozenset[str]],
    case: Case,
    score: CompactionScore,
) -> None:
    """Count which steps had their values in a case's prompts, and if it avoids the compaction.

    `after` has the messages after the compaction, with None in place of each removed message.
    """
    longest_prompt = 0
    for position, prompt, history in _prompts_after(compaction, after, values_by_step, case):
        longest_prompt = max(longest_prompt, prompt.tokens_rendered + prompt.tokens_unbudgeted)
        if position in values_by_step:
            values = values_by_step[position]
            visible_messages = _shown_from_before(prompt, history, len(compaction.before))
            score.add_step(_budget_key(case), values, unseen_tokens(values, visible_messages))
    counter = counter_for(compaction.model or None)
    replaced_tokens = sum(counter.message(message) for message in compaction.replaced)
    # If every prompt is shorter than the messages that the agent replaced, no compaction is needed.
    score.avoided[_budget_key(case)] += longest_prompt < replaced_tokens


def _first_answer(messages: Sequence[Json]) -> int:
    """Return the position of the first answer; -1 if there is none."""
    return next((at for at, message in enumerate(messages) if message["role"] == "assistant"), -1)


def _prompts_after(
    compaction: RunCompaction, after: Sequence[Json | None], steps: Collection[int], case: Case
) -> Iterator[tuple[int, Prompt, Sequence[Json]]]:
    """Render the session's calls, and yield position, prompt and history of each later call.

    `after` has the messages after the compaction, with None in place of each removed message. A
    later call is a call whose answer is in `after`, and its position is the answer's index there.
    The prompts of the measured `steps` are yielded even if their answer was removed. The calls
    before the compaction are rendered first, because a selection and an automatic budget depend on
    the previous ones.
    """
    render, history = Renderer(case, compaction.model, NoEmbedder()), list[Json]()
    # Messages before the compaction have negative positions.
    for position, message in enumerate([*compaction.before, *after], -len(compaction.before)):
        is_answer = message is not None and message["role"] == "assistant"
        if history and (is_answer or position in steps):
            times = [0.0] * len(history)  # equal times, so that no prompt expires
            prompt = render(history, times)
            if position >= 0:
                yield position, prompt, history
        if message is not None:
            history.append(message)
        finish_steps()


def _shown_from_before(
    prompt: Prompt, history: Sequence[Json], before_count: int
) -> list[Mapping[str, Any]]:
    """Return the messages of a prompt, each reduced to what it shows from before the compaction.

    `before_count` is the number of messages in the history from before the compaction.
    """
    messages: list[Mapping[str, Any]] = []
    for at, message in zip(prompt.positions, prompt.messages, strict=True):
        text, own_text = message.get("content"), history[at].get("content")
        if at >= before_count:  # only the restored text after the message's own text
            restored_text = ""
            if isinstance(text, str) and isinstance(own_text, str) and text.startswith(own_text):
                restored_text = text.removeprefix(own_text)
            message = {"role": "tool", "content": restored_text}
        messages.append(message)
    return messages


def used_values(compaction: RunCompaction) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield each step that used results from before the compaction, and the values it used.

    A step is an answer, given by its position in `compaction.after`. Only the first `STEPS` turns
    after the compaction are measured.
    """
    trace = RecallTrace()
    for message in compaction.before:
        trace.add(message)
    before_count, turns = len(compaction.before), 0
    for position, message in enumerate(compaction.after):
        events = [event for event in trace.add(message) if event.position < before_count]
        if message["role"] != "assistant":
            continue
        if events:
            yield position, frozenset[str]().union(*(event.tokens for event in events))
        turns += 1
        if turns == STEPS:
            return


def _reread_results(
    compaction: RunCompaction, values_by_step: Mapping[int, frozenset[str]]
) -> set[int]:
    """Return the results that the agent read again, as positions in `compaction.after`.

    `values_by_step` has the values that each step used, by the step's position in `after`. A result
    was read again if it is the first message after the compaction that has a value of a later step,
    and the summary lacks this value.
    """
    rereads: set[int] = set()
    for step, values in values_by_step.items():
        missing_values = unseen_tokens(values, compaction.summary)
        for position, message in enumerate(compaction.after[:step]):
            still_missing = unseen_tokens(missing_values, [message])
            has_missing_value = still_missing != missing_values
            if message["role"] == "tool" and has_missing_value:
                rereads.add(position)
            missing_values = still_missing
    return rereads


def _without(messages: Sequence[Json], results: Collection[int]) -> list[Json | None]:
    """Return the messages without these results and their calls.

    None takes the place of a removed result, and of a message that had only removed calls.
    """
    removed_ids = {str(messages[at]["tool_call_id"]) for at in results}
    remaining: list[Json | None] = []
    for position, message in enumerate(messages):
        calls = message.get("tool_calls") or ()
        remaining_calls = [call for call in calls if str(call.get("id")) not in removed_ids]
        had_only_removed_calls = calls and not remaining_calls and not message.get("content")
        # A message keeps its text and its other calls. Without any, it is removed, too.
        if position in results or had_only_removed_calls:
            remaining.append(None)
        elif len(remaining_calls) == len(calls):
            remaining.append(message)
        else:
            changed_message = {**message, "tool_calls": remaining_calls}
            if not remaining_calls:
                del changed_message["tool_calls"]
            remaining.append(changed_message)
    return remaining
