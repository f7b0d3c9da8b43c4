"""What a policy looks at: a history before one model invocation, under one budget.

It answers with a `Selection` (engine.plan.selection).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.growable_arrays import Vectors as Vector
from contextrender_bridge.engine.history.history import NO_CALL, History
from contextrender_bridge.engine.history.token_tracking import Originals, TextOf, Tracking
from contextrender_bridge.engine.models.summaries import Summaries
from contextrender_bridge.engine.parameters import NO_PINS, Parameters, Pins
from contextrender_bridge.engine.plan.ranking import Floats
from contextrender_bridge.engine.plan.retained_text import retain_text
from contextrender_bridge.engine.plan.selection import (
    Selection,
    TextSelection,
    messages_before_budget,
    text_tokens,
)
from contextrender_bridge.engine.text.tokens import TokenCounter
from contextrender_bridge.engine.text.transcript import Json

SMALLEST_SUBSTITUTE: Final = 100


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
    for others. `previous` is the selection of the last answered call, if it is known;
    where the call `follows`, those answered since are selected first, as if they had been made.
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
    previous: Selection | None = None
    follows: bool = False

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
    def retained(self) -> TextSelection:
        """The text charged before any result, by the method's rule."""
        return retain_text(self.history, self.budget, self.text_of, self.counter)

    @cached_property
    def unbudgeted(self) -> frozenset[int]:
        """The positions that the budget does not charge."""
        return messages_before_budget(self.history, len(self.history))

    @cached_property
    def unbudgeted_tokens(self) -> int:
        """The tokens of what the budget does not charge."""
        return sum(self.history.text_tokens[position] for position in self.unbudgeted)

    @cached_property
    def retained_tokens(self) -> int:
        """The tokens of the retained text."""
        return self.tokens_of(self.retained)

    @property
    def budget_for_results(self) -> int:
        """The part of the budget that the retained text does not use, in tokens."""
        return self.budget - self.retained_tokens

    def tokens_of(self, text: TextSelection) -> int:
        """Return the tokens of a text that the budget charges."""
        return text_tokens(self.history, text, len(self.history)) - self.unbudgeted_tokens

    @cached_property
    def fits(self) -> bool:
        """Whether the whole history is within the budget."""
        return bool(self.history.total_tokens - self.unbudgeted_tokens <= self.budget)

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
        if self.retained.turns:
            dropped = np.isin(np.asarray(results.turn), self.retained.turns)
            return known & ~dropped
        return known

    @cached_property
    def oversized(self) -> NDArray[np.bool_]:
        """Results that no rendering can show complete."""
        return self.costs > self.budget

    @property
    def substitute_limit(self) -> int:
        """The most tokens of the substitute for an oversized result; 0 if none is shown."""
        share = self.parameters.oversized_share
        return max(SMALLEST_SUBSTITUTE, int(self.budget * share)) if share else 0

    def vectors(self) -> Vector:
        """The results' unit vectors (n, d), zero where there is none."""
        return self.history.vectors.matrix(len(self.history.results.message))


def select_all(view: PolicyInput) -> Selection:
    """Return the selection of every result that has a call, whatever its size."""
    calls = view.history.results.call_event
    complete = tuple(result for result, call in enumerate(calls) if call != NO_CALL)
    return Selection(len(view.history), complete=complete)
