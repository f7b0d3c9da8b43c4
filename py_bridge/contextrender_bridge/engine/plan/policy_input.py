"""What a policy looks at: a history before one model invocation, under one budget.

It answers with a `Plan` (engine.plan.plan).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.growable_arrays import Vectors as Vector
from contextrender_bridge.engine.history.history import NO_CALL, History
from contextrender_bridge.engine.history.token_tracking import Originals, TextOf, Tracking
from contextrender_bridge.engine.models.summaries import Summaries
from contextrender_bridge.engine.parameters import NO_PINS, Parameters, Pins
from contextrender_bridge.engine.plan.plan import (
    SMALLEST_REPLACEMENT,
    Plan,
    RetainedText,
    retain_text,
)
from contextrender_bridge.engine.plan.ranking import Floats
from contextrender_bridge.engine.text.tokens import TokenCounter
from contextrender_bridge.engine.text.transcript import Json


class RelevanceOf(Protocol):
    """Gives s of every result; `task_share` is x's part of the query, if not the parameter's."""

    def __call__(self, task_share: float | None = None) -> Floats:
        """s of every result, shape (n,)."""


@dataclass(frozen=True)
class PolicyInput:
    """A history before one model invocation, under one budget: all that a policy may look at.

    `relevance_of()` gives every result's cosine to the query (n,); it is asked at most once, and
    only by policies that rank by it. `originals_of` reads messages that are not in memory.
    `summaries` is there for policies that need a model, `pins` say what the caller wants kept.
    For a policy whose budget finds itself, `budget` is the most and `start` where it begins, 0
    for others.
    """

    history: History
    budget: int
    parameters: Parameters
    counter: TokenCounter
    text_of: TextOf
    relevance_of: RelevanceOf
    originals_of: Originals | None = None
    summaries: Summaries | None = None
    pins: Pins = NO_PINS
    start: int = 0

    def originals(self, start: int, stop: int) -> Sequence[Json]:
        """The original messages from one position up to another."""
        if self.originals_of is not None:
            return self.originals_of(start, stop)
        held = [message for message in self.history.messages[start:stop] if message is not None]
        if len(held) < stop - start:
            raise LookupError("messages were dropped from memory, and no reader was given")
        return held

    def tracking_of(self, messages: int) -> Tracking:
        """The history's own tracking, caught up with its first messages."""
        return self.history.tracking_of(messages, self.originals, self.counter)

    @cached_property
    def retained(self) -> RetainedText:
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

    def usefulness(self, relevance: Floats) -> Floats:
        """U of every result (n,): recency, observed reuse and relevance, each by its weight."""
        own = self.parameters
        return (
            own.weight_recency * np.exp(-own.recency_decay * self.ages)
            + own.weight_reuse * (1.0 - np.exp(-own.reuse_rate * self.reuse))
            + own.weight_relevance * relevance
        )

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
        if self.retained.dropped_turns:
            left = np.isin(np.asarray(results.turn), self.retained.dropped_turns)
            return known & ~left
        return known

    @cached_property
    def oversized(self) -> NDArray[np.bool_]:
        """Results that no rendering can show complete."""
        return self.costs > self.budget

    @property
    def replacement_limit(self) -> int:
        """The most tokens the text in place of an oversized result may have; 0: none is shown."""
        share = self.parameters.oversized_share
        return max(SMALLEST_REPLACEMENT, int(self.budget * share)) if share else 0

    def vectors(self) -> Vector:
        """The results' unit vectors (n, d), zero where there is none."""
        return self.history.vectors.matrix(len(self.history.results.message))


def everything(view: PolicyInput) -> Plan:
    """The plan that shows every result whose call is known, whatever its size."""
    history = view.history
    outside = frozenset([*range(history.leading_system), history.last_user]) - {-1}
    tokens = history.text_tokens
    outside_tokens = sum(tokens[position] for position in outside)
    retained = RetainedText(sum(tokens) - outside_tokens, outside, outside_tokens)
    known = [r for r, call in enumerate(history.results.call_event) if call != NO_CALL]
    return Plan(retained, known)
