"""Scores of results and of segments: how often they will be used, in relation to their size.

docs/policies.md has the formulas (Result score, Segment score). Their exponents were fitted on
recorded sessions.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.ranking import Floats

MIN_COST: Final = 30
"""The result score of a smaller result is computed as if it had this number of tokens."""

LONG_AGE: Final = 200
"""A result that was last used this number of turns ago has twice this age. Long sessions turn to
other tasks, so old results are worth less than their turns alone would say."""

LOG_ODDS: Final = -2.73
"""The logarithm of a factor. `worth_of` times this factor is the odds that a result is used."""


@dataclass(frozen=True)
class Scores:
    """The scores of a call's results, and the factors from which segments' scores are computed.

    `overlap_latest` is each segment's overlap in words with the latest user and assistant messages.
    `overlap_task` is its overlap with the first user message (docs/policies.md, Segment score).
    """

    context: CallContext
    result_scores: Floats
    overlap_latest: Floats
    overlap_task: Floats

    @cached_property
    def best_first(self) -> list[int]:
        """The results by result score, the best first. Of equal scores, the older comes first."""
        results: list[int] = np.argsort(-self.result_scores, kind="stable").tolist()
        return results

    @cached_property
    def segment_factors(self) -> Floats:
        """The factor of each segment's score that does not depend on the rest of the prompt.

        `ExcerptBuilder` multiplies it by the factor for tokens that are not visible yet
        (docs/policies.md, Segment score).
        """
        tracking = self.context.tracking
        odds = np.exp(LOG_ODDS) * worth_of(self.context)
        segment_counts = np.diff(tracking.first_segment.values)
        result_factor = (odds / segment_counts) ** 0.4
        overlap_factor = (1 + self.overlap_latest) * (1 + self.overlap_task)
        # Most segments have no overlap, so their factor stays 1. Powers are slow to compute.
        overlapping = np.flatnonzero(overlap_factor != 1)
        overlap_factor[overlapping] **= 0.3
        base = result_factor[tracking.segment_result.values] * overlap_factor
        factors: Floats = base / (tracking.segment_tokens.values + 4)
        return factors

    @cached_property
    def token_weights(self) -> Floats:
        """The weight of each tracked token, from how often tokens of its kind were used."""
        return self.context.tracking.token_kinds.weights(self.context.tracking.is_used.values)

    @cached_property
    def segment_token_weights(self) -> Floats:
        """The weight of each entry of `Tracking.segment_token_ids`."""
        weights: Floats = self.token_weights[self.context.tracking.segment_token_ids.values]
        return weights

    @cached_property
    def segment_tokens_used(self) -> NDArray[np.bool_]:
        """For each entry of `Tracking.segment_token_ids`, whether a turn used the token."""
        tracking = self.context.tracking
        is_used: NDArray[np.bool_] = tracking.is_used.values[tracking.segment_token_ids.values]
        return is_used


def scores_of(context: CallContext) -> Scores:
    """Return the scores for a call, as docs/policies.md defines them."""
    tracking = context.tracking
    bm25_answer, overlap_answer = tracking.word_index.match(tracking.answer_words)
    bm25_task, overlap_task = tracking.word_index.match(tracking.task_words)
    # A word that is in both of the latest messages counts once in a segment's overlap with them.
    answer_words = set(tracking.answer_words)
    other_user_words = tuple(word for word in tracking.user_words if word not in answer_words)
    _, overlap_user = tracking.word_index.match(other_user_words)
    result_scores = (
        (1 + tracking.owned_counts.values) ** 0.4
        * (1 + tracking.use_counts.values) ** 0.6
        * ((1 + bm25_answer) * (1 + bm25_task)) ** 0.2
        / (age_of(context) * np.maximum(context.costs, MIN_COST) ** 0.75)
    )
    return Scores(context, result_scores, overlap_answer + overlap_user, overlap_task)


def worth_of(context: CallContext) -> Floats:
    """Return, for each result, a number proportional to the odds that it is used again.

    The odds rise with the number of tracked tokens that the result owns, because no earlier result
    has them, and with the number of turns that used the result. They fall with the number of turns
    since its last use (docs/policies.md, Segment score).
    """
    tracking = context.tracking
    worth: Floats = (
        (1 + tracking.owned_counts.values) ** 0.374
        * (1 + tracking.use_counts.values) ** 0.597
        / age_of(context) ** 0.94
    )
    return worth


def age_of(context: CallContext) -> Floats:
    """Return the age of each result, from the turns since it was last used, at least 1.

    If a result was never used, the turns since its own turn count. An age grows faster than the
    number of turns (docs/policies.md, Result score).
    """
    turns = np.maximum(context.turn - context.tracking.last_use_turns.values, 1)
    age: Floats = turns * (1 + turns / LONG_AGE)
    return age
