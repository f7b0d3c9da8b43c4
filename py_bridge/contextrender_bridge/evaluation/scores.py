"""What replaying a run measures: one score a policy and budget (docs/method.md, Measures).

Long because it has the scores of a call, a case and a run, and what makes them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from contextrender_bridge.base.model_table import window_of
from contextrender_bridge.base.usage import NOTHING_USED, Usage
from contextrender_bridge.engine.parameters import budget_name
from contextrender_bridge.engine.replay.recall_measures import (
    RecallEvent,
    RecallScore,
    recall_events,
)
from contextrender_bridge.evaluation.billing import Biller, Prompts, Sent, Unit, no_bills, sum_bills
from contextrender_bridge.evaluation.cases import Case
from contextrender_bridge.evaluation.runs import Run


@dataclass(frozen=True, slots=True)
class Turn:
    """A recorded model call: its assistant message, and the earlier results that drew on.

    `newest` are the positions of the results that came since the call before.
    """

    number: int
    position: int
    events: Sequence[RecallEvent]
    newest: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a case made of the history before one turn.

    Token counts are those the budget limits; `tokens_outside` is the system prompt and the
    current user message, which come on top. `visible` are positions of complete results, `shown`
    of those in view in any form, `positions` those of the `messages`. `usage` is what the policy
    itself spent on it; it `warned` where a model could not be had. `seconds` is the time it took,
    `budget` the call's own, in tokens.
    """

    tokens_full: int
    tokens_rendered: int
    tokens_outside: int
    visible: frozenset[int]
    messages: Sequence[Mapping[str, Any]]
    usage: Usage = NOTHING_USED
    warned: bool = False
    seconds: float = 0.0
    shown: frozenset[int] = frozenset()
    positions: Sequence[int] = ()
    budget: int = 0


Watch = Callable[[Case, Turn, Prompt], None]
"""Called with every prompt, once it is scored."""


@dataclass(slots=True)
class LoopScore:
    """The sums of a case's closed loop (docs/evaluation.md).

    `steps` are recorded model calls, `refetched` calls issued again before them, and `without` the
    steps that went on lacking something. `bills` are all prompts by every provider's rule,
    `output` the tokens of all answers, `own` what the policy's own model and embedder used.
    """

    steps: int = 0
    refetched: int = 0
    without: int = 0
    output: int = 0
    own: Usage = NOTHING_USED
    bills: dict[str, Usage] = field(default_factory=no_bills)

    def plus(self, other: "LoopScore") -> "LoopScore":
        """The sum of both."""
        return LoopScore(*(_sum(self, other, each.name) for each in fields(self)))

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "steps": self.steps,
            "refetched": self.refetched,
            "without": self.without,
            "output": self.output,
            "policy_prompt_tokens": self.own.prompt,
            "policy_output_tokens": self.own.output,
            "embedded_tokens": self.own.embedded,
            "bills": bills_to_json(self.bills),
        }


SUMMED: Final = (
    *("tokens_outside", "sent", "own", "warned", "seconds", "bills", "newest", "newest_complete"),
)
"""What of a case's score is a sum."""


@dataclass(slots=True)
class CaseScore:
    """The sums of one case; `seconds` is the time its renderings took.

    `sent` are the agent's own calls and `own` the policy's; `calls` are the tokens of each prompt
    with what is outside the budget, of one run. `warned` are calls for which a model could not be
    had, so that they say little of the policy. `bills` are its prompts by every provider's rule.
    `newest` counts the calls over budget that follow results, `newest_complete` those of them that
    show all the newest turn's results complete.
    """

    case: Case
    recall: RecallScore = field(default_factory=RecallScore)
    tokens_outside: int = 0
    sent: Usage = NOTHING_USED
    own: Usage = NOTHING_USED
    calls: list[int] = field(default_factory=list)
    warned: int = 0
    seconds: float = 0.0
    bills: dict[str, Usage] = field(default_factory=no_bills)
    newest: int = 0
    newest_complete: int = 0
    loop: LoopScore | None = None

    def add(self, turn: Turn, prompt: Prompt, sent: Sent, output: int) -> None:
        """Scores one prompt against what its turn drew on."""
        if turn.newest and prompt.tokens_full > prompt.budget:
            self.newest += 1
            self.newest_complete += turn.newest <= prompt.visible
        self.recall.add_turn(turn.events, prompt.visible, prompt.messages)
        self.recall.add_invocation(prompt.tokens_full, prompt.tokens_rendered, prompt.budget)
        self.tokens_outside += prompt.tokens_outside
        self.sent = self.sent.plus(Usage.of_prompt(sent.tokens, sent.cached, output))
        self.own = self.own.plus(prompt.usage)
        self.calls.append(sent.tokens)
        self.warned += prompt.warned
        self.seconds += prompt.seconds

    def merge(self, other: "CaseScore") -> None:
        """Adds the sums of another run's score of the same case."""
        self.recall.merge(other.recall)
        for name in SUMMED:
            setattr(self, name, _sum(self, other, name))
        if other.loop is not None:
            self.loop = (self.loop or LoopScore()).plus(other.loop)

    @property
    def share_saved(self) -> float | None:
        """Share of the histories' tokens that were not sent."""
        full = self.recall.tokens_full
        return 1 - self.recall.tokens_rendered / full if full else None

    def to_json(self) -> dict[str, Any]:
        """The figures, without times: the same input always gives the same."""
        return {
            "policy": self.case.policy,
            "budget": budget_name(self.case.budget),
            "parameters": self.case.changed,
            **self.recall.to_json(),
            "tokens_outside": self.tokens_outside,
            "share_saved": self.share_saved,
            "prompt_tokens": self.sent.prompt,
            "cached_tokens": self.sent.read,
            "output_tokens": self.sent.output,
            "policy_prompt_tokens": self.own.prompt,
            "policy_output_tokens": self.own.output,
            "embedded_tokens": self.own.embedded,
            "warned_calls": self.warned,
            "bills": bills_to_json(self.bills),
            "newest": self.newest,
            "newest_complete": self.newest_complete,
            "closed_loop": self.loop.to_json() if self.loop else None,
        }


@dataclass(slots=True)
class RunScore:
    """One run under every case.

    `full` is what full history's calls are: the whole transcript so far, each the previous one's
    continuation, and `full_bills` the same by every provider's rule. `recording` and `embedding`
    are seconds spent once for all cases.
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
    full_bills: dict[str, Usage] = field(default_factory=no_bills)


def bills_to_json(bills: Mapping[str, Usage]) -> dict[str, dict[str, int]]:
    """Prompt tokens by rule: at the full price, read from the cache, and written into it."""
    return {
        rule: {"fresh": one.fresh, "read": one.read, "written": one.written}
        for rule, one in bills.items()
    }


def _sum(one: Any, other: Any, name: str) -> Any:
    mine, more = getattr(one, name), getattr(other, name)
    if isinstance(mine, Usage):
        return mine.plus(more)
    return sum_bills(mine, more) if isinstance(mine, dict) else mine + more


def turns_of(run: Run) -> list[Turn]:
    """The model calls of a run, in order."""
    events: dict[int, list[RecallEvent]] = {}
    for event in recall_events(run.messages):
        events.setdefault(event.message, []).append(event)
    turns: list[Turn] = []
    newest: list[int] = []
    for position, message in enumerate(run.messages):
        if message["role"] == "tool":
            newest.append(position)
        elif message["role"] == "assistant":
            drawn_on = events.get(position, ())
            turns.append(Turn(len(turns) + 1, position, drawn_on, frozenset(newest)))
            newest = []
    return turns


def totals(runs: Sequence[RunScore]) -> list[CaseScore]:
    """Every case's sums over all runs, in the order of the cases."""
    sums = [CaseScore(score.case) for score in runs[0].cases]
    for run in runs:
        for total, score in zip(sums, run.cases, strict=True):
            total.merge(score)
    return sums


class Scorer:
    """Scores one case's prompts along a run, each against the one before."""

    def __init__(self, run: Run, case: Case, prompts: Prompts) -> None:
        """Counts with `prompts`, which the run's cases may share."""
        self.score = CaseScore(case)
        self._run = run
        self._prompts = prompts
        self._units: list[Unit] = []
        self._biller = Biller(prompts)

    def add(self, turn: Turn, prompt: Prompt) -> None:
        """Scores the next prompt."""
        self._units, sent = self._prompts.send(self._units, prompt.messages)
        output = self._prompts.tokens([self._run.messages[turn.position]])
        self.score.add(turn, prompt, sent, output)
        self._biller.add(self._units, self._run.time(turn.position))
        self.score.bills = self._biller.bills


def score_of(run: Run, cases: list[CaseScore], prompts: Prompts) -> RunScore:
    """The score of a run, whose prompts were counted by `prompts`.

    Full history is billed at most the model's window a call: no agent sends more.
    """
    full, sizes, before, read = NOTHING_USED, list[int](), 0, 0
    units, biller, window = list[Unit](), Biller(prompts), window_of(run.model)
    for position, message in enumerate(run.messages):
        if message["role"] == "assistant":
            fresh, _ = prompts.send([], run.messages[read:position])
            units += prompts.within(fresh, window - before) if window else fresh
            now = before + sum(unit.tokens for unit in fresh)
            full = full.plus(Usage.of_prompt(now, before, prompts.tokens([message])))
            biller.add(units, run.time(position))
            sizes.append(now)
            before, read = now, position
    score = RunScore(run.id, run.source, run.model, cases, run.task, full, sizes)
    score.full_bills = biller.bills
    return score
