"""What an agent's own compactions lost, and what would have been shown of it (docs/evaluation.md).

An agent that compacts goes on with a summary of its history. Of its steps after that, those are
measured that drew on values which only results from before hold.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.models.embeddings import NoEmbedder
from contextrender_bridge.engine.parameters import AUTO, budget_name
from contextrender_bridge.engine.replay.recall_measures import RecallTrace, unseen_tokens
from contextrender_bridge.engine.text.tokens import counter_for
from contextrender_bridge.evaluation.cases import Case
from contextrender_bridge.evaluation.closed_loop import calls_of
from contextrender_bridge.evaluation.in_process import Renderer
from contextrender_bridge.evaluation.runs import Compaction, Run, compactions_of
from contextrender_bridge.evaluation.workers import spread

STEPS: Final = 60
"""Turns after a compaction that are measured."""
MOST: Final = 24
"""Compactions that are measured: of more, a random sample."""
BUDGETS: Final = (24_000, 48_000, 96_000, AUTO)


ALL, SUMMARY, AGAIN = "all", "summary", "again"
"""Every step measured; what the agent's own summary held; that and all that it read since."""


@dataclass(slots=True)
class CompactionScore:
    """Sums over the `measured` ones of `count` compactions.

    `steps` counts, of those that drew on values from before, those that had all there, and
    `values` these values: by `ALL`, `SUMMARY`, `AGAIN` and the names of the budgets `shown`, which
    count what each shows of the history from before alone. `read_calls` are results that brought
    such values again, `read_tokens` by model.
    """

    count: int = 0
    measured: int = 0
    shown: Sequence[str] = ()
    steps: Counter[str] = field(default_factory=Counter)
    values: Counter[str] = field(default_factory=Counter)
    read_calls: int = 0
    read_tokens: Counter[str] = field(default_factory=Counter)

    def saw(self, name: str, needed: frozenset[str], unseen: frozenset[str]) -> None:
        """What one step had there, and what not."""
        self.steps[name] += not unseen
        self.values[name] += len(needed) - len(unseen)

    def add(self, other: "CompactionScore") -> None:
        """Adds what was measured of others."""
        self.steps.update(other.steps)
        self.values.update(other.values)
        self.read_calls += other.read_calls
        self.read_tokens.update(other.read_tokens)

    def share(self, name: str) -> float | None:
        """Of the steps measured; None where there are none."""
        return self.steps[name] / self.steps[ALL] if self.steps[ALL] else None

    def share_of_values(self, name: str) -> float | None:
        """Of the values of those steps."""
        return self.values[name] / self.values[ALL] if self.values[ALL] else None

    @property
    def rows(self) -> dict[str, str]:
        """What is counted, by how it is told."""
        shown = {f"shown {budget_phrase(name)}, nothing read again": name for name in self.shown}
        return {"in the agent's summary": SUMMARY, "and what it read again": AGAIN, **shown}

    def to_json(self) -> dict[str, Any]:
        """Shares are from 0 to 1, of the steps that drew on results from before."""
        return {
            "count": self.count,
            "measured": self.measured,
            "steps": self.steps[ALL],
            "summary_had_all": self.share(SUMMARY),
            "read_again": self.share(AGAIN),
            "shown": {name: self.share(name) for name in self.shown},
            "values": {
                "summary": self.share_of_values(SUMMARY),
                "read_again": self.share_of_values(AGAIN),
                "shown": {name: self.share_of_values(name) for name in self.shown},
            },
            "read_again_calls": self.read_calls,
            "read_again_tokens": sum(self.read_tokens.values()),
        }


def measure(compactions: Sequence[Compaction], cases: Sequence[Case]) -> CompactionScore:
    """Follows each for `STEPS` steps, rendering every call of the session under every case.

    What the agent read again is left out of the history, and of what is shown only what stood
    before the compaction counts. The cases' policies must not embed.
    """
    score = CompactionScore(len(compactions), len(compactions), [_name(case) for case in cases])
    for compaction in compactions:
        _measure(compaction, cases, score)
    return score


def measure_runs(runs: Sequence[Run], workers: int | None = None) -> CompactionScore:
    """Measure the compactions in these runs under the live default, with a progress bar.

    Of more than `MOST`, a random sample is measured. The same runs give the same sample.
    """
    found = compactions_of(runs)
    cases = [Case("contextrender_cache_aware", budget, agent_defaults=True) for budget in BUDGETS]
    sample = found if len(found) <= MOST else Random(MOST).sample(found, MOST)
    score = measure([], cases)
    score.count, score.measured = len(found), len(sample)
    sizes = [len(one.before) for one in sample]
    tasks = [([one], cases) for one in sample]
    for more in spread("Following compactions, messages", measure, tasks, sizes, workers):
        score.add(more)
    return score


def _name(case: Case) -> str:
    return str(budget_name(case.budget))


def budget_phrase(name: str) -> str:
    """A row's budget in words."""
    return (
        f"within {int(name):,} tokens" if name.isdecimal() else "within a budget that finds itself"
    )


def _measure(compaction: Compaction, cases: Sequence[Case], score: CompactionScore) -> None:
    counter = counter_for(compaction.model or None)
    steps = list(_steps(compaction))
    again = _read_again(compaction, steps)
    for position, needed in steps:
        since = compaction.after[:position]
        score.saw(ALL, needed, frozenset())
        score.saw(SUMMARY, needed, unseen_tokens(needed, compaction.summary))
        score.saw(AGAIN, needed, unseen_tokens(needed, [*compaction.summary, *since]))
    lean = _without(compaction.after, again)
    for case in cases:
        for needed, shown in _shown(compaction, lean, dict(steps), case):
            score.saw(_name(case), needed, unseen_tokens(needed, shown))
    calls = calls_of(compaction.after)
    tokens = sum(counter.message(compaction.after[at]) for at in again)
    tokens += sum(counter.call(calls[at]) for at in again if at in calls)
    score.read_calls += len(again)
    score.read_tokens[compaction.model] += tokens


def _shown(
    compaction: Compaction,
    lean: Sequence[Json | None],
    steps: Mapping[int, frozenset[str]],
    case: Case,
) -> Iterator[tuple[frozenset[str], list[Mapping[str, Any]]]]:
    """Each step's values, and what its prompt has of the history from before.

    Every call is rendered, from the first on: a selection goes on from the one before, and so does
    a budget that finds itself.
    """
    render, history = Renderer(case, compaction.model, NoEmbedder()), list[Json]()
    kept = len(compaction.before)
    for place, message in enumerate([*compaction.before, *lean[: max(steps, default=-1) + 1]]):
        needed = steps.get(place - kept)
        if history and (needed or (message is not None and message["role"] == "assistant")):
            prompt = render(history, [0.0] * len(history))
            if needed:
                pairs = zip(prompt.positions, prompt.messages, strict=True)
                yield needed, [_from_before(shown, history[at], at < kept) for at, shown in pairs]
        if message is not None:
            history.append(message)


def _from_before(shown: Mapping[str, Any], recorded: Json, before: bool) -> Mapping[str, Any]:
    """A message of a prompt; of a later one than the compaction, only what came back behind it."""
    if before:
        return shown
    text, own = shown.get("content"), recorded.get("content")
    if not (isinstance(text, str) and isinstance(own, str) and text.startswith(own)):
        return {"role": "tool", "content": ""}
    return {"role": "tool", "content": text[len(own) :]}


def _steps(compaction: Compaction) -> Iterator[tuple[int, frozenset[str]]]:
    """Steps that drew on results from before: their place in `after`, and the values."""
    kept, trace, turns = len(compaction.before), RecallTrace(), 0
    for message in compaction.before:
        trace.add(message)
    for position, message in enumerate(compaction.after):
        events = [event for event in trace.add(message) if event.position < kept]
        if message["role"] != "assistant":
            continue
        if events:
            yield position, frozenset[str]().union(*(event.tokens for event in events))
        turns += 1
        if turns == STEPS:
            return


def _read_again(
    compaction: Compaction, steps: Sequence[tuple[int, frozenset[str]]]
) -> dict[int, None]:
    """The results in `after` that first brought values again which the summary lacked."""
    found: dict[int, None] = {}
    for stop, needed in steps:
        lacking = unseen_tokens(needed, compaction.summary)
        for position, message in enumerate(compaction.after[:stop]):
            rest = unseen_tokens(lacking, [message])
            if message["role"] == "tool" and rest != lacking:
                found[position] = None
            lacking = rest
    return found


def _without(messages: Sequence[Json], results: Collection[int]) -> list[Json | None]:
    """The messages, None for those results and where nothing but calls of theirs is left."""
    ids = {str(messages[at]["tool_call_id"]) for at in results}
    found: list[Json | None] = []
    for position, message in enumerate(messages):
        calls = message.get("tool_calls") or ()
        kept = [call for call in calls if str(call.get("id")) not in ids]
        if position in results or (calls and not kept and not message.get("content")):
            found.append(None)
        elif len(kept) < len(calls):
            rest = {name: value for name, value in message.items() if name != "tool_calls"}
            found.append({**rest, "tool_calls": kept} if kept else rest)
        else:
            found.append(message)
    return found
