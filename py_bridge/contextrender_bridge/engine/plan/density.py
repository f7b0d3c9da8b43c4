"""S: how much a result is worth for its size (docs/policies.md, S)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.token_tracking import Tracking
from contextrender_bridge.engine.plan.call_context import CallContext, Ints
from contextrender_bridge.engine.plan.ranking import Floats

LEAST_COST: Final = 30


@dataclass(frozen=True)
class Density:
    """S of every result, and every segment's overlap with the latest messages and the task."""

    moment: CallContext
    scores: Floats
    overlap_latest: Floats
    overlap_task: Floats

    @cached_property
    def order(self) -> list[int]:
        """The results by S, the best first; of equal ones the older first."""
        best_first: list[int] = np.argsort(-self.scores, kind="stable").tolist()
        return best_first

    @cached_property
    def of_segments(self) -> Floats:
        """G of every segment, without the factor for what is said nowhere else."""
        tracking = self.moment.tracking
        odds = np.exp(-2.73) * worth_of(self.moment)
        of_result = (odds / np.diff(tracking.first_segment.values)) ** 0.4
        overlap = (1 + self.overlap_latest) * (1 + self.overlap_task)
        some = np.flatnonzero(overlap != 1)  # most have none, and powers are slow
        overlap[some] **= 0.3
        base = of_result[tracking.segment_result.values] * overlap
        gains: Floats = base / (tracking.segment_tokens.values + 4)
        return gains

    @cached_property
    def of_tokens(self) -> Floats:
        """How much each tracked token counts in G, by what its kind was worth so far."""
        return self.moment.tracking.kinds.weights(self.moment.tracking.is_used.values)

    @cached_property
    def of_said(self) -> Floats:
        """The same of every token of every segment, in their order."""
        weights: Floats = self.of_tokens[self.moment.tracking.segment_ids.values]
        return weights

    @cached_property
    def used_said(self) -> NDArray[np.bool_]:
        """Whether a turn said it, for each of these."""
        tracking = self.moment.tracking
        used: NDArray[np.bool_] = tracking.is_used.values[tracking.segment_ids.values]
        return used


def density_of(moment: CallContext) -> Density:
    """S and the overlaps at a moment."""
    tracking = moment.tracking
    by_latest, overlap_latest = tracking.words.match(tracking.latest)
    by_task, overlap_task = tracking.words.match(tracking.task)
    said = set(tracking.latest)
    others = tuple(word for word in tracking.question if word not in said)
    _, overlap_question = tracking.words.match(others)
    scores = (
        (1 + tracking.introduced.values) ** 0.4
        * (1 + tracking.uses.values) ** 0.6
        * ((1 + by_latest) * (1 + by_task)) ** 0.2
        / (since_use(tracking, moment) * np.maximum(moment.costs, LEAST_COST) ** 0.75)
    )
    return Density(moment, scores, overlap_latest + overlap_question, overlap_task)


def worth_of(moment: CallContext) -> Floats:
    """About how likely each result is to be used again, whatever its size, up to a factor."""
    tracking = moment.tracking
    worth: Floats = (
        (1 + tracking.introduced.values) ** 0.374
        * (1 + tracking.uses.values) ** 0.597
        / since_use(tracking, moment) ** 0.94
    )
    return worth


def since_use(tracking: Tracking, moment: CallContext) -> Ints:
    """Turns since each result was last used, else since its own; at least 1."""
    turns: Ints = np.maximum(moment.turn - tracking.last_use.values, 1)
    return turns
