"""What replaying a run measures: one score a policy and budget (docs/method.md, Measures)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.costs import NOTHING_USED, Usage
from engine.lookback.measures import RecallEvent, RecallScore, recall_events
from engine.parameters import budget_name
from evaluation.caches import Billed, no_bills, sum_bills
from evaluation.cases import Case
from evaluation.prompts import Sent
from evaluation.runs import Run


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
    bills: dict[str, Billed] = field(default_factory=no_bills)

    def plus(self, other: "LoopScore") -> "LoopScore":
        """The sum of both."""
        return LoopScore(
            self.steps + other.steps,
            self.refetched + other.refetched,
            self.without + other.without,
            self.output + other.output,
            self.own.plus(other.own),
            sum_bills(self.bills, other.bills),
        )


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
    bills: dict[str, Billed] = field(default_factory=no_bills)
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
        self.sent = self.sent.plus(Usage(sent.tokens, sent.cached, output))
        self.own = self.own.plus(prompt.usage)
        self.calls.append(sent.tokens)
        self.warned += prompt.warned
        self.seconds += prompt.seconds

    def merge(self, other: "CaseScore") -> None:
        """Adds the sums of another run's score of the same case."""
        self.recall.merge(other.recall)
        self.tokens_outside += other.tokens_outside
        self.sent = self.sent.plus(other.sent)
        self.own = self.own.plus(other.own)
        self.warned += other.warned
        self.seconds += other.seconds
        self.bills = sum_bills(self.bills, other.bills)
        self.newest += other.newest
        self.newest_complete += other.newest_complete
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
            "cached_tokens": self.sent.cached,
            "output_tokens": self.sent.output,
            "policy_prompt_tokens": self.own.prompt,
            "policy_output_tokens": self.own.output,
            "embedded_tokens": self.own.embedded,
            "warned_calls": self.warned,
            "bills": {rule: asdict(billed) for rule, billed in self.bills.items()},
            "newest": self.newest,
            "newest_complete": self.newest_complete,
            "closed_loop": asdict(self.loop) if self.loop else None,
        }


@dataclass(slots=True)
class RunScore:
    """One run under every case; over HTTP, `sessions` names the session of each.

    `full` is what full history's calls are: the whole transcript so far, each the previous one's
    continuation, and `full_bills` the same by every provider's rule. `recording` and `embedding`
    are seconds spent once for all cases; over HTTP they are part of each case's own seconds, and 0
    here.
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
    sessions: list[str] = field(default_factory=list)
    full_bills: dict[str, Billed] = field(default_factory=no_bills)


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
