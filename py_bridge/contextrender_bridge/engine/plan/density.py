"""S, the worth of a result for its size (docs/policies.md, S)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.token_tracking import Tracking
from contextrender_bridge.engine.plan.call_context import CallContext, Ints
from contextrender_bridge.engine.plan.ranking import Floats

MIN_COST: Final = 30


@dataclass(frozen=True)
class Density:
    """The score S of each result, and each segment's overlap with the latest messages and task."""

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
        """G of every segment, without the factor for tokens that are not visible."""
        tracking = self.context.tracking
        odds = np.exp(-2.73) * worth_of(self.context)
        of_result = (odds / np.diff(tracking.first_segment.values)) ** 0.4
        overlap = (1 + self.overlap_latest) * (1 + self.overlap_task)
        overlapping = np.flatnonzero(overlap != 1)  # few segments, and powers are slow
        overlap[overlapping] **= 0.3
        base = of_result[tracking.segment_result.values] * overlap
        gains: Floats = base / (tracking.segment_tokens.values + 4)
        return gains

    @cached_property
    def of_tokens(self) -> Floats:
        """The weight of each tracked token in G, by how often its kind was used so far."""
        return self.context.tracking.kinds.weights(self.context.tracking.is_used.values)

    @cached_property
    def of_segment_tokens(self) -> Floats:
        """The weights of the tokens of all segments, in order."""
        weights: Floats = self.of_tokens[self.context.tracking.segment_ids.values]
        return weights

    @cached_property
    def segment_tokens_used(self) -> NDArray[np.bool_]:
        """Says of each of these tokens whether a turn used it."""
        tracking = self.context.tracking
        is_used: NDArray[np.bool_] = tracking.is_used.values[tracking.segment_ids.values]
        return is_used


def density_of(context: CallContext) -> Density:
    """Return S and the overlaps for a call."""
    tracking = context.tracking
    by_latest, overlap_latest = tracking.words.match(tracking.latest)
    by_task, overlap_task = tracking.words.match(tracking.task)
    latest_words = set(tracking.latest)
    question_words = tuple(word for word in tracking.question if word not in latest_words)
    _, overlap_question = tracking.words.match(question_words)
    scores = (
        (1 + tracking.introduced.values) ** 0.4
        * (1 + tracking.uses.values) ** 0.6
        * ((1 + by_latest) * (1 + by_task)) ** 0.2
        / (since_use(tracking, context) * np.maximum(context.costs, MIN_COST) ** 0.75)
    )
    return Density(context, scores, overlap_latest + overlap_question, overlap_task)


def worth_of(context: CallContext) -> Floats:
    """Return about how likely each result is to be used again, up to a common factor."""
    tracking = context.tracking
    worth: Floats = (
        (1 + tracking.introduced.values) ** 0.374
        * (1 + tracking.uses.values) ** 0.597
        / since_use(tracking, context) ** 0.94
    )
    return worth


def since_use(tracking: Tracking, context: CallContext) -> Ints:
    """Return the turns since each result was last used, or since its own turn; at least 1."""
    turns: Ints = np.maximum(context.turn - tracking.last_use.values, 1)
    return turns
