"""The scores of a replayed run, one for each policy and budget (docs/method.md, Measures).

Long because it has the scores of a call, a case and a run, and the functions that compute them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from typing import Any, Final

from contextrender_bridge.base.model_table import window_of
from contextrender_bridge.base.usage import NOTHING_USED, Usage
from contextrender_bridge.engine.parameters import budget_name
from contextrender_bridge.engine.replay.recall_measures import (
    RecallEvent,
    RecallScore,
    recall_events,
)
from contextrender_bridge.evaluation.billing import Biller, Prompts, Unit, add_bills, empty_bills
from contextrender_bridge.evaluation.cases import Case
from contextrender_bridge.evaluation.runs import Run

SUMMED_FIELDS: Final = (
    *("tokens_unbudgeted", "agent_usage", "policy_usage", "warned_calls", "seconds", "bills"),
    *("newest", "newest_complete"),
)
"""The fields of a case's score that are sums."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A recorded model call: the position of its answer, and the uses of earlier results.

    `newest` has the positions of the results returned since the previous model call.
    """

    number: int
    position: int
    events: Sequence[RecallEvent]
    newest: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt that a case renders before one turn.

    `tokens_full` and `tokens_rendered` do not include `tokens_unbudgeted`.
    """

    tokens_full: int
    tokens_rendered: int
    tokens_unbudgeted: int
    """The tokens of the system prompt and the current user message."""
    complete: frozenset[int]
    """The positions of the results that the prompt shows complete."""
    messages: Sequence[Mapping[str, Any]]
    usage: Usage = NOTHING_USED
    """The usage of the policy's own model and embedder."""
    has_warning: bool = False
    """True if the policy's model was unavailable."""
    seconds: float = 0.0
    """The time that rendering took."""
    visible: frozenset[int] = frozenset()
    """The positions of the results that the prompt shows in any form."""
    positions: Sequence[int] = ()
    """The position in the history of each message."""
    budget: int = 0
    """The budget of this call in tokens."""


PromptCallback = Callable[[Case, Turn, Prompt], None]
"""A function that is called with every prompt after it is scored."""


@dataclass(slots=True)
class LoopScore:
    """The sums of a case's closed loop (docs/evaluation.md)."""

    steps: int = 0
    """The number of recorded model calls."""
    refetched: int = 0
    """The number of tool calls that the agent repeated before the steps."""
    steps_with_misses: int = 0
    """The number of steps that missed a result even after the repeated calls."""
    output: int = 0
    """The tokens of all answers."""
    policy_usage: Usage = NOTHING_USED
    """The usage of the policy's own model and embedder."""
    bills: dict[str, Usage] = field(default_factory=empty_bills)
    """The usage of all prompts by every billing rule."""

    def plus(self, other: "LoopScore") -> "LoopScore":
        """Return the sums of both scores, field by field."""
        return LoopScore(**{each.name: _sum_of(self, other, each.name) for each in fields(self)})

    def to_json(self) -> dict[str, Any]:
        """Return the sums as plain values."""
        return {
            "steps": self.steps,
            "refetched": self.refetched,
            "steps_with_misses": self.steps_with_misses,
            "output": self.output,
            "policy_prompt_tokens": self.policy_usage.prompt,
            "policy_output_tokens": self.policy_usage.output,
            "embedded_tokens": self.policy_usage.embedded,
            "bills": bills_to_json(self.bills),
        }


@dataclass(slots=True)
class CaseScore:
    """The sums of one case over the calls of one or more runs."""

    case: Case
    recall: RecallScore = field(default_factory=RecallScore)
    tokens_unbudgeted: int = 0
    agent_usage: Usage = NOTHING_USED
    """The usage of the agent's calls, if each prompt's repeated beginning is cached."""
    policy_usage: Usage = NOTHING_USED
    """The usage of the policy's own model and embedder."""
    calls: list[int] = field(default_factory=list)
    """The tokens of each prompt of one run, with unbudgeted tokens."""
    warned_calls: int = 0
    """The number of calls for which the policy's model was unavailable."""
    seconds: float = 0.0
    """The time that rendering took."""
    bills: dict[str, Usage] = field(default_factory=empty_bills)
    """The usage of the prompts by every billing rule."""
    newest: int = 0
    """The number of calls over budget that directly follow tool results.

    Calls within their budget do not count, because their prompts show all results.
    """
    newest_complete: int = 0
    """The number of calls in `newest` that show all the results that they follow complete."""
    loop: LoopScore | None = None
    """The sums of the closed loop, if it was replayed."""

    def merge(self, other: "CaseScore") -> None:
        """Add the sums of another run under the same case to these sums."""
        self.recall.merge(other.recall)
        for name in SUMMED_FIELDS:
            setattr(self, name, _sum_of(self, other, name))
        if other.loop is not None:
            self.loop = (self.loop or LoopScore()).plus(other.loop)

    @property
    def share_saved(self) -> float | None:
        """The share of the full histories' tokens that were not sent; None for empty histories."""
        full = self.recall.tokens_full
        return 1 - self.recall.tokens_rendered / full if full else None

    def to_json(self) -> dict[str, Any]:
        """Return the sums as plain values.

        Times are left out, so that a replay of the same runs returns the same values.
        """
        return {
            "policy": self.case.policy,
            "budget": budget_name(self.case.budget),
            "parameters": self.case.changed_parameters,
            **self.recall.to_json(),
            "tokens_unbudgeted": self.tokens_unbudgeted,
            "share_saved": self.share_saved,
            "prompt_tokens": self.agent_usage.prompt,
            "cached_tokens": self.agent_usage.cache_read,
            "output_tokens": self.agent_usage.output,
            "policy_prompt_tokens": self.policy_usage.prompt,
            "policy_output_tokens": self.policy_usage.output,
            "embedded_tokens": self.policy_usage.embedded,
            "warned_calls": self.warned_calls,
            "bills": bills_to_json(self.bills),
            "newest": self.newest,
            "newest_complete": self.newest_complete,
            "closed_loop": self.loop.to_json() if self.loop else None,
        }


@dataclass(slots=True)
class RunScore:
    """The scores of one run under every case.

    `full` is the usage of the same calls with the full history, where each prompt continues the
    previous one. `full_calls` has the tokens of each of these prompts, and `full_bills` their usage
    under every billing rule. `recording` and `embedding` are seconds spent once for all cases.
    """

    id: str
    source: str
    model: str
    cases: list[CaseScore]
    task: str = ""
    full: Usage = NOTHING_USED
    full_calls: list[int] = field(default_factory=list)
    recording: float = 0.0
    embedding: float = 0.0
    full_bills: dict[str, Usage] = field(default_factory=empty_bills)


def bills_to_json(bills: Mapping[str, Usage]) -> dict[str, dict[str, int]]:
    """Map each billing rule to its prompt tokens: uncached, cache read and cache write."""
    return {
        rule: {"fresh": usage.uncached, "read": usage.cache_read, "written": usage.cache_write}
        for rule, usage in bills.items()
    }


def _sum_of(score: Any, other: Any, name: str) -> Any:
    """Return the sum of both scores' fields of that name."""
    value, other_value = getattr(score, name), getattr(other, name)
    if isinstance(value, Usage):
        return value.plus(other_value)
    if isinstance(value, dict):  # the usage by billing rule
        return add_bills(value, other_value)
    return value + other_value


def turns_of(run: Run) -> list[Turn]:
    """Return the model calls of a run, in order.

    Each has its uses of earlier results, and the results returned since the previous call.
    """
    events_by_message: dict[int, list[RecallEvent]] = {}
    for event in recall_events(run.messages):
        events_by_message.setdefault(event.message, []).append(event)
    turns: list[Turn] = []
    newest: list[int] = []
    for position, message in enumerate(run.messages):
        if message["role"] == "tool":
            newest.append(position)
        elif message["role"] == "assistant":
            events = events_by_message.get(position, ())
            turns.append(Turn(len(turns) + 1, position, events, frozenset(newest)))
            newest = []
    return turns


def totals(runs: Sequence[RunScore]) -> list[CaseScore]:
    """Return every case's sums over all runs. All runs have the same cases in the same order."""
    sums = [CaseScore(score.case) for score in runs[0].cases]
    for run in runs:
        for total, score in zip(sums, run.cases, strict=True):
            total.merge(score)
    return sums


class Scorer:
    """Scores one case's prompts along a run. Each prompt is compared with the previous one."""

    def __init__(self, run: Run, case: Case, prompts: Prompts) -> None:
        """Create a scorer that counts tokens with `prompts`, which the run's cases may share."""
        self.score = CaseScore(case)
        self._run = run
        self._prompts = prompts
        self._units: list[Unit] = []
        self._biller = Biller(prompts)

    def add(self, turn: Turn, prompt: Prompt) -> None:
        """Add the next prompt to `score`: its tokens, its usage and its bills.

        It is scored against the results that the turn used.
        """
        self._units, usage = self._prompts.compare(self._units, prompt.messages)
        output = self._prompts.tokens([self._run.messages[turn.position]])
        self._biller.add(self._units, self._run.time(turn.position))
        score = self.score
        score.recall.add_turn(turn.events, prompt.complete, prompt.messages)
        score.recall.add_invocation(prompt.tokens_full, prompt.tokens_rendered, prompt.budget)
        # Whether the newest results are complete matters only if something had to be omitted.
        is_over_budget = prompt.tokens_full > prompt.budget
        if turn.newest and is_over_budget:
            score.newest += 1
            score.newest_complete += turn.newest.issubset(prompt.complete)
        score.tokens_unbudgeted += prompt.tokens_unbudgeted
        score.agent_usage = score.agent_usage.plus(replace(usage, output=output))
        score.policy_usage = score.policy_usage.plus(prompt.usage)
        score.bills = self._biller.bills
        score.calls.append(usage.prompt)
        score.warned_calls += prompt.has_warning
        score.seconds += prompt.seconds


def score_of(run: Run, cases: list[CaseScore], prompts: Prompts) -> RunScore:
    """Return the score of a run: the scores of its `cases`, and the usage of the full history.

    Compute the usage of calls whose prompts are the full history. If the history exceeds the
    model's window, `full_bills` have only the beginning that fits, because no agent can send more.
    `prompts` counts the tokens.
    """
    full_usage, full_calls = NOTHING_USED, list[int]()
    billed_units, biller, window = list[Unit](), Biller(prompts), window_of(run.model)
    previous_tokens = previous_position = 0
    for position, message in enumerate(run.messages):
        if message["role"] != "assistant":
            continue
        # The full history is the previous call's history and the messages since then.
        new_units = prompts.units_of(run.messages[previous_position:position])
        tokens = previous_tokens + sum(unit.tokens for unit in new_units)
        output = prompts.tokens([message])
        full_usage = full_usage.plus(Usage.of_prompt(tokens, previous_tokens, output))
        full_calls.append(tokens)

        if window:  # bill only the units that still fit into it
            ends = accumulate(unit.tokens for unit in new_units)
            pairs = zip(new_units, ends, strict=True)
            new_units = [unit for unit, end in pairs if previous_tokens + end <= window]
        billed_units += new_units
        biller.add(billed_units, run.time(position))
        previous_tokens, previous_position = tokens, position
    return RunScore(
        id=run.id,
        source=run.source,
        model=run.model,
        cases=cases,
        task=run.task,
        full=full_usage,
        full_calls=full_calls,
        full_bills=biller.bills,
    )
