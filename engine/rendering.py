"""From a history and a budget to what the model is shown.

A policy looks at a `View` and answers with a `Plan`; `shown_items` turns the plan into the
messages to walk to, in order. Texts are needed only for those.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from engine.history import NO_CALL, History
from engine.parameters import Parameters
from engine.retained import Retained, TextOf, retain_text
from engine.selection import Floats
from engine.tokens import TokenCounter
from engine.vectors import Vectors as Vector

REPLACEMENT_SHARE = 0.25


@dataclass(slots=True, frozen=True)
class ScoreTable:
    """Why each result ranked as it did, one entry a result: relevance, U, and the last score."""

    relevance: Floats
    usefulness: Floats
    score: Floats


@dataclass(slots=True, frozen=True)
class Plan:
    """What a policy shows: complete results in the order taken, and replaced ones with a limit.

    `replaced` maps a result to the most tokens its replacement text may have. `order` is that of
    both kinds together, where it is not simply `taken` then `replaced`.
    """

    retained: Retained
    taken: list[int]
    replaced: dict[int, int] = field(default_factory=dict)
    scores: ScoreTable | None = None
    order: list[int] = field(default_factory=list)

    @property
    def shown_order(self) -> list[int]:
        """The results shown, complete or replaced, in the order taken."""
        return self.order or [*self.taken, *self.replaced]


@dataclass(slots=True, frozen=True)
class Shown:
    """One message of the rendering: which of its calls stay, and the text put in place of its own.

    `result` is the result's number when the text replaced is an oversized result's, else -1.
    """

    message: int
    calls: tuple[int, ...] = ()
    text: str | None = None
    result: int = -1


@dataclass(frozen=True)
class View:
    """A history before one model invocation, under one budget: all that a policy may look at.

    `relevance_of()` gives every result's cosine to the query (n,); it is asked at most once, and
    only by policies that rank by it.
    """

    history: History
    budget: int
    parameters: Parameters
    counter: TokenCounter
    text_of: TextOf
    relevance_of: Callable[[], Floats]

    @cached_property
    def retained(self) -> Retained:
        """The text charged before any result, by the method's rule."""
        return retain_text(self.history, self.budget, self.text_of, self.counter)

    @cached_property
    def fits(self) -> bool:
        """Whether the whole history is within the budget."""
        outside = {*range(self.history.leading_system), self.history.last_user} - {-1}
        excluded = sum(self.history.text_tokens[position] for position in outside)
        return bool(self.history.total_tokens - excluded <= self.budget)

    @cached_property
    def ages(self) -> Floats:
        """Turns since each result's call, before the next invocation."""
        return self.history.turn - np.asarray(self.history.results.turn, dtype=np.float64)

    @cached_property
    def reuse(self) -> Floats:
        """c of each result."""
        return np.array(self.history.reuse.scores(), dtype=np.float64)

    @cached_property
    def relevance(self) -> Floats:
        """s of each result, in [0, 1]."""
        return self.relevance_of()

    @cached_property
    def costs(self) -> NDArray[np.int64]:
        """Tokens of each result together with its call."""
        results = self.history.results
        return np.asarray(results.tokens, dtype=np.int64) + np.asarray(
            results.call_tokens, dtype=np.int64
        )

    @cached_property
    def eligible(self) -> NDArray[np.bool_]:
        """Results that may be shown at all: those with a call, of a turn that has not left."""
        results = self.history.results
        known: NDArray[np.bool_] = np.asarray(results.call_event, dtype=np.int64) != NO_CALL
        if self.retained.left_turns:
            left = np.isin(np.asarray(results.turn), self.retained.left_turns)
            return known & ~left
        return known

    @cached_property
    def oversized(self) -> NDArray[np.bool_]:
        """Results that no rendering can show complete."""
        return self.costs > self.budget

    @property
    def replacement_limit(self) -> int:
        """The most tokens the text in place of an oversized result may have."""
        return int(self.budget * REPLACEMENT_SHARE)

    def vectors(self) -> Vector:
        """The results' unit vectors (n, d), zero where there is none."""
        return self.history.vectors.matrix(len(self.history.results))


def everything(view: View) -> Plan:
    """The plan that shows every result whose call is known, whatever its size."""
    history = view.history
    outside = frozenset([*range(history.leading_system), history.last_user]) - {-1}
    tokens = history.text_tokens
    outside_tokens = sum(tokens[position] for position in outside)
    retained = Retained(sum(tokens) - outside_tokens, outside, outside_tokens)
    known = [r for r, call in enumerate(history.results.call_event) if call != NO_CALL]
    return Plan(retained, known)


def shown_items(history: History, plan: Plan) -> list[Shown]:
    """The messages of a plan's rendering in transcript order; replacement texts not yet filled."""
    results = history.results
    visible = {*plan.taken, *plan.replaced}
    calls: dict[int, list[int]] = {}
    for result in visible:
        message = results.call_message[result]
        calls.setdefault(message, []).append(
            results.call_event[result] - history.first_events[message] - 1
        )
    items: list[Shown] = []
    for message, role in enumerate(history.roles):
        if role == "tool":
            result = history.result_at(message)
            if result in visible:
                items.append(Shown(message, result=result if result in plan.replaced else -1))
        elif message not in plan.retained.left_messages:
            kept = tuple(sorted(calls.get(message, ())))
            text = plan.retained.excerpts.get(message)
            if kept or role != "assistant" or history.text_tokens[message]:
                items.append(Shown(message, kept, text))
    return items
