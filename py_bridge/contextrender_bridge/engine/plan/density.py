"""S, the worth of a result for its size, and the parts of G that all excerpts of a call share.

The formulas, with their exponents, are in docs/policies.md (S and G). The exponents were fitted on
recorded sessions.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.plan.call_context import CallContext, Ints
from contextrender_bridge.engine.plan.ranking import Floats

MIN_COST: Final = 30
"""The cost of smaller results in S, in tokens."""

LOG_ODDS: Final = -2.73
"""The logarithm of the factor that makes `worth_of` the odds of a use."""


@dataclass(frozen=True)
class Density:
    """The score S of each result, and each segment's overlap with the latest messages and task.

    The overlaps are o1 and o2 of G.
    """

    context: CallContext
    scores: Floats
    overlap_latest: Floats
    overlap_task: Floats

    @cached_property
    def order(self) -> list[int]:
        """The results by S, the best first, the older first if equal."""
        best_first: list[int] = np.argsort(-self.scores, kind="stable").tolist()
        return best_first

    @cached_property
    def of_segments(self) -> Floats:
        """G of every segment without its factors (1+used) and (1+new)^0.8, which change."""
        tracking = self.context.tracking
        odds = np.exp(LOG_ODDS) * worth_of(self.context)
        segment_counts = np.diff(tracking.first_segment.values)
        result_factor = (odds / segment_counts) ** 0.4
        overlap_factor = (1 + self.overlap_latest) * (1 + self.overlap_task)
        overlapping = np.flatnonzero(overlap_factor != 1)  # few segments, and powers are slow
        overlap_factor[overlapping] **= 0.3
        base = result_factor[tracking.segment_result.values] * overlap_factor
        gains: Floats = base / (tracking.segment_tokens.values + 4)
        return gains

    @cached_property
    def of_tokens(self) -> Floats:
        """The weight of each tracked token in G, by its kind (docs/policies.md, Kinds)."""
        return self.context.tracking.kinds.weights(self.context.tracking.is_used.values)

    @cached_property
    def of_segment_tokens(self) -> Floats:
        """The weight of each token of the segments, in the order of `Tracking.segment_ids`."""
        weights: Floats = self.of_tokens[self.context.tracking.segment_ids.values]
        return weights

    @cached_property
    def segment_tokens_used(self) -> NDArray[np.bool_]:
        """Says of each token of the segments whether a turn used it, in the same order."""
        tracking = self.context.tracking
        is_used: NDArray[np.bool_] = tracking.is_used.values[tracking.segment_ids.values]
        return is_used


def density_of(context: CallContext) -> Density:
    """Return S of every result, and the overlaps of every segment, for a call."""
    tracking = context.tracking
    bm25_latest, overlap_latest = tracking.words.match(tracking.latest)
    bm25_task, overlap_task = tracking.words.match(tracking.task)
    latest_words = set(tracking.latest)  # a word in both latest messages counts once in o1
    question_words = tuple(word for word in tracking.question if word not in latest_words)
    _, overlap_question = tracking.words.match(question_words)
    scores = (
        (1 + tracking.owned_tokens.values) ** 0.4
        * (1 + tracking.uses.values) ** 0.6
        * ((1 + bm25_latest) * (1 + bm25_task)) ** 0.2
        / (turns_since_use(context) * np.maximum(context.costs, MIN_COST) ** 0.75)
    )
    return Density(context, scores, overlap_latest + overlap_question, overlap_task)


def worth_of(context: CallContext) -> Floats:
    """Return each result's odds of being used again, up to a common factor.

    This is (1+n)^0.374 (1+u)^0.597 / e^0.94 (docs/policies.md, G and Partial rebuild).
    """
    tracking = context.tracking
    worth: Floats = (
        (1 + tracking.owned_tokens.values) ** 0.374
        * (1 + tracking.uses.values) ** 0.597
        / turns_since_use(context) ** 0.94
    )
    return worth


def turns_since_use(context: CallContext) -> Ints:
    """Return the turns since each result was last used, or since its own turn; at least 1."""
    turns: Ints = np.maximum(context.turn - context.tracking.last_use.values, 1)
    return turns
