"""The input of a policy: a history before one model call, and the call's budget and settings.

A policy returns a `Selection` (engine.plan.selection) for it.
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
from contextrender_bridge.engine.parameters import NO_PINS, Parameters, Pins
from contextrender_bridge.engine.plan.ranking import Floats
from contextrender_bridge.engine.plan.retained_text import retain_text
from contextrender_bridge.engine.plan.selection import (
    Selection,
    TextSelection,
    text_tokens,
    unbudgeted_messages,
)
from contextrender_bridge.engine.text.tokens import TokenCounter
from contextrender_bridge.engine.text.transcript import Json

SMALLEST_SUBSTITUTE: Final = 100
"""The tokens that an oversized result's substitute may always have (docs/method.md)."""


class RelevanceOf(Protocol):
    """A function that returns the relevance of every result."""

    def __call__(self, task_share: float | None = None) -> Floats:
        """Return the relevance of every result, shape (n,).

        `task_share` overrides the weight of the first user message in the query.
        """


@dataclass(frozen=True)
class PolicyInput:
    """A history before one model call, with all that a policy may read.

    - `relevance_of()` returns every result's cosine to the query. Only policies that rank results
      by relevance call it, once per model call.
    - `originals_of` reads messages that are not in memory.
    - `pins` names the results that must be in every prompt.
    - `budget` is in tokens. For a policy with an automatic budget, it is the upper limit, and the
      first call has `start_budget` tokens. For other policies, `start_budget` is 0.
    - `previous` is the newest known selection of an answered call. A cache-aware policy continues
      its prompt. If `select_answered` is true, the policy first makes the selections of the calls
      that were answered after it, and then continues the last of these prompts.
    """

    history: History
    budget: int
    parameters: Parameters
    counter: TokenCounter
    text_of: TextOf
    relevance_of: RelevanceOf
    originals_of: Originals | None = None
    pins: Pins = NO_PINS
    start_budget: int = 0
    previous: Selection | None = None
    select_answered: bool = False

    def originals(self, start: int, stop: int) -> Sequence[Json]:
        """Return the original messages from position `start` up to `stop`.

        Raise LookupError if some are not in memory and there is no `originals_of`.
        """
        if self.originals_of is not None:
            return self.originals_of(start, stop)
        messages = self.history.messages[start:stop]
        originals = [message for message in messages if message is not None]
        if len(originals) < stop - start:
            raise LookupError("messages were dropped from memory, and no reader was given")
        return originals

    def tracking_of(self, messages: int) -> Tracking:
        """Return the history's tracking of at least its first `messages` messages."""
        return self.history.tracking_of(messages, self.originals, self.counter)

    @cached_property
    def retained_text(self) -> TextSelection:
        """The texts that the prompt shows, chosen before any result (docs/method.md)."""
        return retain_text(self.history, self.budget, self.text_of, self.counter)

    @cached_property
    def unbudgeted(self) -> frozenset[int]:
        """The positions of the system prompt and the current user message, which cost no budget."""
        return unbudgeted_messages(self.history, len(self.history))

    @cached_property
    def unbudgeted_tokens(self) -> int:
        """The tokens of the `unbudgeted` messages."""
        return sum(self.history.text_tokens[position] for position in self.unbudgeted)

    @cached_property
    def retained_tokens(self) -> int:
        """The tokens of the retained text."""
        return self.tokens_of(self.retained_text)

    @property
    def budget_for_results(self) -> int:
        """The part of the budget that the retained text does not use, in tokens."""
        return self.budget - self.retained_tokens

    def tokens_of(self, text: TextSelection) -> int:
        """Return the budgeted tokens of a text selection."""
        return text_tokens(self.history, text, len(self.history)) - self.unbudgeted_tokens

    @cached_property
    def fits(self) -> bool:
        """True if the full history is within the budget."""
        return bool(self.history.total_tokens - self.unbudgeted_tokens <= self.budget)

    @cached_property
    def ages(self) -> Floats:
        """The age of each result in turns, as of the next call."""
        return self.history.turn - np.asarray(self.history.results.turn, dtype=np.float64)

    @cached_property
    def reuse(self) -> Floats:
        """The reuse score of each result (c in docs/method.md)."""
        return np.array(self.history.reuse.scores(), dtype=np.float64)

    @cached_property
    def relevance(self) -> Floats:
        """The relevance of each result, in [0, 1] (s in docs/method.md)."""
        return self.relevance_of()

    def usefulness(self, relevance: Floats) -> Floats:
        """Return the usefulness U of every result (docs/method.md, Selection), shape (n,).

        It is the weighted sum of the result's recency, its reuse and its `relevance`.
        """
        parameters = self.parameters
        return (
            parameters.weight_recency * np.exp(-parameters.recency_decay * self.ages)
            + parameters.weight_reuse * (1.0 - np.exp(-parameters.reuse_rate * self.reuse))
            + parameters.weight_relevance * relevance
        )

    @cached_property
    def costs(self) -> NDArray[np.int64]:
        """The tokens of each result together with its call."""
        results = self.history.results
        result_tokens = np.asarray(results.tokens, dtype=np.int64)
        call_tokens = np.asarray(results.call_tokens, dtype=np.int64)
        return result_tokens + call_tokens

    @cached_property
    def eligible(self) -> NDArray[np.bool_]:
        """A flag for each result, true if the result has a call and its turn is not dropped.

        Only such a result may be shown.
        """
        results = self.history.results
        has_call: NDArray[np.bool_] = np.asarray(results.call_event, dtype=np.int64) != NO_CALL
        if self.retained_text.dropped_turns:
            is_dropped = np.isin(np.asarray(results.turn), self.retained_text.dropped_turns)
            return has_call & ~is_dropped
        return has_call

    @cached_property
    def oversized(self) -> NDArray[np.bool_]:
        """For each result, whether the result and its call together exceed the budget."""
        return self.costs > self.budget

    @property
    def substitute_limit(self) -> int:
        """The most tokens of an oversized result's substitute; 0 if no substitute is shown."""
        share = self.parameters.oversized_share
        return max(SMALLEST_SUBSTITUTE, int(self.budget * share)) if share else 0

    def vectors(self) -> Vector:
        """Return the results' unit vectors (n, d). The row of a result without one is zero."""
        return self.history.vectors.matrix(len(self.history.results.message))


def select_all(view: PolicyInput) -> Selection:
    """Return the selection of every result that has a call, whatever its size."""
    calls = view.history.results.call_event
    complete = tuple(result for result, call in enumerate(calls) if call != NO_CALL)
    return Selection(len(view.history), complete=complete)
