"""What replaying a run measures: one score a policy and budget (docs/method.md, Measures)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from contextrender_bridge.replay.runs import Run
from engine.measures import RecallEvent, RecallScore, recall_events


@dataclass(frozen=True, slots=True)
class Case:
    """A policy under a budget."""

    policy: str
    budget: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A recorded model call: its assistant message, and the earlier results that drew on."""

    number: int
    position: int
    events: Sequence[RecallEvent]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a case made of the history before one turn.

    Token counts are those the budget limits; `tokens_outside` is the system prompt and the
    current user message, which come on top. `visible` are positions of complete results.
    """

    tokens_full: int
    tokens_rendered: int
    tokens_outside: int
    visible: frozenset[int]
    messages: Sequence[Mapping[str, Any]]


Watch = Callable[[Case, Turn, Prompt], None]
"""Told of every prompt, once it is scored."""


@dataclass(slots=True)
class CaseScore:
    """The sums of one case; `seconds` is the time its renderings took."""

    case: Case
    recall: RecallScore = field(default_factory=RecallScore)
    tokens_outside: int = 0
    seconds: float = 0.0

    def add(self, turn: Turn, prompt: Prompt, seconds: float) -> None:
        """Scores one prompt against what its turn drew on."""
        self.recall.add_turn(turn.events, prompt.visible, prompt.messages)
        self.recall.add_invocation(prompt.tokens_full, prompt.tokens_rendered, self.case.budget)
        self.tokens_outside += prompt.tokens_outside
        self.seconds += seconds

    def merge(self, other: "CaseScore") -> None:
        """Adds the sums of another score of the same case."""
        self.recall.merge(other.recall)
        self.tokens_outside += other.tokens_outside
        self.seconds += other.seconds

    @property
    def share_saved(self) -> float | None:
        """Share of the histories' tokens that were not sent."""
        full = self.recall.tokens_full
        return 1 - self.recall.tokens_rendered / full if full else None

    def to_json(self) -> dict[str, Any]:
        """The figures, without times: the same input always gives the same."""
        return {
            "policy": self.case.policy,
            "budget": self.case.budget,
            **self.recall.to_json(),
            "tokens_outside": self.tokens_outside,
            "share_saved": self.share_saved,
        }


@dataclass(slots=True)
class RunScore:
    """One run under every case.

    `recording` and `embedding` are seconds spent once for all cases; over HTTP they are part of
    each case's own seconds, and 0 here.
    """

    id: str
    source: str
    model: str
    cases: list[CaseScore]
    recording: float = 0.0
    embedding: float = 0.0


def turns_of(run: Run) -> list[Turn]:
    """The model calls of a run, in order."""
    events: dict[int, list[RecallEvent]] = {}
    for event in recall_events(run.messages):
        events.setdefault(event.message, []).append(event)
    positions = [i for i, message in enumerate(run.messages) if message["role"] == "assistant"]
    return [
        Turn(number, position, events.get(position, ()))
        for number, position in enumerate(positions, 1)
    ]


def totals(runs: Sequence[RunScore]) -> list[CaseScore]:
    """Every case's sums over all runs, in the order of the cases."""
    sums = [CaseScore(score.case) for score in runs[0].cases]
    for run in runs:
        for total, score in zip(sums, run.cases, strict=True):
            total.merge(score)
    return sums
