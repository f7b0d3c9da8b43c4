"""Measures what agents' own compactions lost, and what prompts would have shown of it.

An agent that compacts continues with a summary of its history. A later step is measured if it used
values that only results from before the compaction have (docs/evaluation.md).
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
from contextrender_bridge.evaluation.runs import Run, RunCompaction, compactions_of
from contextrender_bridge.evaluation.scores import Prompt
from contextrender_bridge.evaluation.workers import run_tasks

STEPS: Final = 60
"""The number of turns after a compaction that are measured."""
MAX_MEASURED: Final = 24
"""The largest number of compactions that are measured. Of more, a random sample is measured."""
BUDGETS: Final = (24_000, 48_000, 96_000, AUTO)


def measure(compactions: Sequence[RunCompaction], cases: Sequence[Case]) -> CompactionScore:
    """Measure `STEPS` steps after each compaction, rendering the session's calls under every case.

    Results that the agent read again are removed from the rendered history, and only what a prompt
    shows from before the compaction counts. The cases' policies must not embed.
    """
    count = len(compactions)
    score = CompactionScore(count, measured=count, budgets=[_name(case) for case in cases])
    for compaction in compactions:
        _measure(compaction, cases, score)
    return score


def measure_runs(runs: Sequence[Run], workers: int | None = None) -> CompactionScore:
    """Measure the compactions in these runs under the agents' default, with a progress bar.

    Of more than `MAX_MEASURED`, a random sample is measured. The same runs give the same sample.
    """
    compactions = compactions_of(runs)
    cases = [Case("contextrender_cache_aware", budget, agent_defaults=True) for budget in BUDGETS]
    sample = (
        compactions
        if len(compactions) <= MAX_MEASURED
        else Random(MAX_MEASURED).sample(compactions, MAX_MEASURED)
    )
    score = measure([], cases)
    score.count, score.measured = len(compactions), len(sample)
    sizes = [len(compaction.before) for compaction in sample]
    tasks = [([compaction], cases) for compaction in sample]
    for part in run_tasks("Following compactions, messages", measure, tasks, sizes, workers):
        score.add(part)
    return score


def _name(case: Case) -> str:
    return str(budget_name(case.budget))


def _measure(compaction: RunCompaction, cases: Sequence[Case], score: CompactionScore) -> None:
    """Measure one compaction and add its counts to `score`.

    Each step is counted with the summary, with the summary and the messages after it, and with the
    prompts of every case. The results that the agent read again are counted last. The prompts are
    rendered from a history without them, because an agent with such prompts need not read again.
    """
    counter = counter_for(compaction.model or None)
    steps = list(used_values(compaction))
    reread = _reread_results(compaction, steps)
    for position, needed in steps:
        since = compaction.after[:position]
        score.add_step(ALL_STEPS, needed, frozenset())
        score.add_step(SUMMARY, needed, unseen_tokens(needed, compaction.summary))
        score.add_step(WITH_REREADS, needed, unseen_tokens(needed, [*compaction.summary, *since]))
    after_without_rereads = _without(compaction.after, reread)
    replaced_tokens = sum(counter.message(message) for message in compaction.replaced)
    needed_by_position = dict(steps)
    end = max(needed_by_position, default=_first_answer(compaction.after)) + 1
    for case in cases:
        longest = 0
        prompts = _prompts_after(compaction, after_without_rereads[:end], needed_by_position, case)
        for position, prompt, history in prompts:
            longest = max(longest, prompt.tokens_rendered + prompt.tokens_unbudgeted)
            if position in needed_by_position:
                needed = needed_by_position[position]
                visible_messages = _shown_from_before(prompt, history, len(compaction.before))
                score.add_step(_name(case), needed, unseen_tokens(needed, visible_messages))
        # If every prompt is shorter than the messages that the agent replaced, it need not compact.
        score.avoided[_name(case)] += longest < replaced_tokens
    calls = calls_of(compaction.after)
    tokens = sum(counter.message(compaction.after[position]) for position in reread)
    tokens += sum(counter.call(calls[position]) for position in reread if position in calls)
    score.read_calls += len(reread)
    score.read_tokens[compaction.model] += tokens


def _first_answer(messages: Sequence[Json]) -> int:
    return next((at for at, message in enumerate(messages) if message["role"] == "assistant"), -1)


def _prompts_after(
    compaction: RunCompaction, after: Sequence[Json | None], steps: Collection[int], case: Case
) -> Iterator[tuple[int, Prompt, Sequence[Json]]]:
    """Yield each prompt after the compaction: the position of its answer, itself and its history.

    `after` has the messages after the compaction, with None in place of each removed message. Steps
    whose answer was removed have a prompt, too; `steps` has their positions in `after`. The calls
    before the compaction are rendered first, because a selection and an automatic budget depend on
    the previous ones.
    """
    render, history = Renderer(case, compaction.model, NoEmbedder()), list[Json]()
    # Messages before the compaction have negative positions.
    for position, message in enumerate([*compaction.before, *after], -len(compaction.before)):
        is_answer = message is not None and message["role"] == "assistant"
        if history and (is_answer or position in steps):
            prompt = render(history, [0.0] * len(history))
            if position >= 0:
                yield position, prompt, history
        if message is not None:
            history.append(message)


def _shown_from_before(
    prompt: Prompt, history: Sequence[Json], before_count: int
) -> list[Mapping[str, Any]]:
    """Return what each message of a prompt shows from before the compaction."""
    return [
        _from_before(shown_message, history[at], at < before_count)
        for at, shown_message in zip(prompt.positions, prompt.messages, strict=True)
    ]


def _from_before(message: Mapping[str, Any], original: Json, is_before: bool) -> Mapping[str, Any]:
    """Return what a message of a prompt shows from before the compaction.

    A message from before the compaction is returned unchanged. To a message from after it, restored
    text may be appended; then only the restored text is from before.
    """
    if is_before:
        return message
    shown_text, own_text = message.get("content"), original.get("content")
    restored_text = ""
    if isinstance(shown_text, str) and isinstance(own_text, str):
        restored_text = shown_text[len(own_text) :] if shown_text.startswith(own_text) else ""
    return {"role": "tool", "content": restored_text}


def used_values(compaction: RunCompaction) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield the position in `after` of each step that used results from before, and the values.

    Only the first `STEPS` turns after the compaction are measured.
    """
    before_count, trace, turns = len(compaction.before), RecallTrace(), 0
    for message in compaction.before:
        trace.add(message)
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
    compaction: RunCompaction, steps: Sequence[tuple[int, frozenset[str]]]
) -> dict[int, None]:
    """Return the results that the agent read again, as positions in `compaction.after`.

    These are the results after the compaction that were the first to have a value which a later
    step used and which the summary does not have.
    """
    reread: dict[int, None] = {}
    for stop, needed in steps:
        missing_values = unseen_tokens(needed, compaction.summary)
        for position, message in enumerate(compaction.after[:stop]):
            still_missing = unseen_tokens(missing_values, [message])
            if message["role"] == "tool" and still_missing != missing_values:
                reread[position] = None
            missing_values = still_missing
    return reread


def _without(messages: Sequence[Json], results: Collection[int]) -> list[Json | None]:
    """Return the messages without these results and their calls.

    None takes the place of a removed result, and of a message that had only removed calls.
    """
    ids = {str(messages[at]["tool_call_id"]) for at in results}
    remaining: list[Json | None] = []
    for position, message in enumerate(messages):
        calls = message.get("tool_calls") or ()
        kept_calls = [call for call in calls if str(call.get("id")) not in ids]
        if position in results or (calls and not kept_calls and not message.get("content")):
            remaining.append(None)
        elif len(kept_calls) < len(calls):
            fields = {name: value for name, value in message.items() if name != "tool_calls"}
            remaining.append({**fields, "tool_calls": kept_calls} if kept_calls else fields)
        else:
            remaining.append(message)
    return remaining
