"""The choice of segments for excerpts: those that add the most tracked tokens for their size.

The gain of a segment is its score in docs/policies.md, Segment score.

Long because one algorithm chooses the segments of required excerpts, of other excerpts and of
restored parts.
"""

import heapq
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.tracked_tokens import Ids
from contextrender_bridge.engine.plan.call_context import Ints
from contextrender_bridge.engine.plan.excerpt_text import GAP, mark_tokens
from contextrender_bridge.engine.plan.ranking import Floats
from contextrender_bridge.engine.plan.scores import Scores
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD

HEAD_SHARE: Final = 0.25
"""The share of an excerpt for the result's first segments."""

LONG_HEAD_SHARE: Final = 0.5
"""The share of the beginning if the segments with a gain leave tokens of the excerpt unused."""

MAX_MISFITS_OF_ONE_RESULT: Final = 8
MAX_MISFITS_OF_ALL_RESULTS: Final = 12
"""The search in the segments of one or of all results ends after this many that do not fit."""

MIN_TO_FILL: Final = 40
"""If fewer tokens remain, no segments are searched for them."""

SORTED_FIRST: Final = 256
"""The number of segments with the largest gains that are sorted before the others."""


class ExcerptBuilder:
    """A builder of excerpts: it adds the segments with the largest gains to a selection.

    The new tokens of a segment are its tracked tokens that are not visible yet. A segment without
    new tokens has the gain 0, and is never added. The gain of any other segment is its entry of
    `Scores.segment_factors` times (1 + used) (1 + new)^0.8. In this formula, new is the summed
    weight of the new tokens, and used is the number of new tokens that a turn has used. Adding a
    segment makes its tokens visible, so the gains of other segments fall.
    """

    def __init__(self, builder: SelectionBuilder, scores: Scores) -> None:
        """Start with the selection of `builder`. `scores` are the scores of the builder's call."""
        context, tracking = builder.context, builder.context.tracking
        self._builder, self._tracking = builder, tracking
        self._scores, self._gain_factors = scores, scores.segment_factors
        self._gap_tokens = context.counter.text(GAP)
        self._excerpt_tokens: dict[int, int] = {}  # the tokens of each result's excerpt so far
        self._first_segment: list[int] = tracking.first_segment.values.tolist()  # of each result
        self._visible = builder.visible_tokens()
        # Loops over single tokens read memory views, which is faster than reading NumPy arrays.
        self._ids = memoryview(tracking.segment_token_ids.values)
        self._ids_at = memoryview(tracking.segment_token_starts.values)
        self._is_visible = memoryview(self._visible.view(np.uint8))
        self._weight = memoryview(scores.token_weights)
        self._is_used = memoryview(tracking.is_used.values.view(np.uint8))

    def add_excerpt(self, result: int, size: float) -> None:
        """Add an excerpt of a result, of at most `size` tokens with the result's call.

        `HEAD_SHARE` of the size is for the result's first segments, the rest for the segments with
        the largest gains. If tokens are then left, because the result has few new tokens, add more
        first segments, up to `LONG_HEAD_SHARE`. If the first segment does not fit, add nothing.
        """
        first, stop = self._first_segment[result], self._first_segment[result + 1]
        head_end = self._add_head(result, first, size, HEAD_SHARE)
        if head_end == first:
            return
        self._add_best(
            head_end,
            gains=self._gains(head_end, stop),
            remaining=lambda: size - self._excerpt_tokens[result],
            max_misfits=MAX_MISFITS_OF_ONE_RESULT,
        )
        self._add_head(result, head_end, size, LONG_HEAD_SHARE)
        # Write the excerpt, because it gets no more segments.
        self._builder.fix_excerpt(result, self._excerpt_tokens.pop(result))

    def _add_head(self, result: int, segment: int, size: float, share: float) -> int:
        """Add a result's segments from `segment` on, in order, within `share` of `size`.

        Return the first segment that does not fit, or the end of the result's segments.
        """
        while segment < self._first_segment[result + 1]:
            segments = self._builder.segments.get(result, ())
            if segment not in segments:
                tokens = self._tokens(segment)
                limit = size * share if segments else size  # the first one may take all of it
                if self._excerpt_tokens.get(result, 0) + tokens > limit:
                    break
                self._add(segment, tokens)
            segment += 1
        return segment

    def fill_up(self, limit: float) -> None:
        """Add the segments with the largest gains of all results that are not selected yet.

        The tokens of the whole selection stay within `limit`. If a newer result of the same file
        has a segment with all tokens that a segment would make visible, add the newer one instead.
        """
        builder = self._builder
        if limit - builder.used_tokens <= MIN_TO_FILL:
            return
        available = np.flatnonzero(builder.available)
        if not len(available):
            return
        first = self._first_segment[int(available[0])]
        gains = self._gains(first, self._first_segment[-1])
        # A gain of 0 excludes a segment. Exclude the segments of results that are selected already.
        gains *= builder.available[self._tracking.segment_result.values[first:]]
        self._add_best(
            first,
            gains,
            lambda: limit - builder.used_tokens,
            MAX_MISFITS_OF_ALL_RESULTS,
            prefers_newer=True,
        )

    def select_unseen_segments(
        self, result: int, limit: float, outdated: Collection[int] = ()
    ) -> list[int]:
        """Return the segments of a result with the largest gains, within `limit` tokens, in order.

        Never return the `outdated` segments. If all others fit, return all of them. If no segment
        has a new token, return none. Afterwards the tokens of the returned segments are visible, so
        later choices do not count them as new.
        """
        first, stop = self._first_segment[result], self._first_segment[result + 1]
        gains = self._gains(first, stop)
        gains[[segment - first for segment in outdated]] = 0.0
        if not gains.any():
            return []
        # Return all segments if they fit, also those without new tokens.
        sizes = self._tracking.segment_tokens.values
        all_segments = [segment for segment in range(first, stop) if segment not in outdated]
        gap_tokens = self._gap_tokens * len(outdated)  # each replaced segment may leave a gap
        if int(sizes[all_segments].sum()) + gap_tokens <= limit:
            for segment in all_segments:
                self._mark_visible(segment)
            return all_segments
        return self._select_best_fitting(first, gains, limit)

    def _select_best_fitting(self, first: int, gains: Floats, limit: float) -> list[int]:
        """Return the segments with the largest gains that fit `limit` tokens together, in order.

        `gains` has the gains of the segments from `first` on. The tokens of the returned segments
        then count as visible.
        """
        segments: list[int] = []
        sizes = self._tracking.segment_tokens.values
        misfits = 0
        for segment in self._best_first(first, gains):
            tokens = int(sizes[segment]) + self._gap_tokens  # the gap before it
            if tokens <= limit:
                segments.append(segment)
                limit -= tokens
                self._mark_visible(segment)  # `_best_first` then yields by the lower gains
            else:
                misfits += 1
                if misfits == MAX_MISFITS_OF_ONE_RESULT:
                    break
        return sorted(segments)

    def _gains(self, first: int, stop: int) -> Floats:
        """Return the present gain of each segment from `first` up to `stop`."""
        tracking = self._tracking
        bounds = tracking.segment_token_starts.values[first : stop + 1]
        tokens = slice(bounds[0], bounds[-1])  # the tokens of all these segments
        is_new = ~self._visible[tracking.segment_token_ids.values[tokens]]
        new_weight = _sums_between(bounds, is_new * self._scores.segment_token_weights[tokens])
        used_count = _sums_between(bounds, is_new & self._scores.segment_tokens_used[tokens])
        gains: Floats = self._gain_factors[first:stop] * (1 + used_count) * (1 + new_weight) ** 0.8
        gains[new_weight == 0] = 0.0
        return gains

    def _add_best(
        self,
        first: int,
        gains: Floats,
        remaining: Callable[[], float],
        max_misfits: int,
        *,
        prefers_newer: bool = False,
    ) -> None:
        """Add the segments with the largest gains, and skip those that do not fit.

        Stop after `max_misfits` segments that do not fit. `gains` has the gains of the segments
        from `first` on. `remaining` returns the number of tokens that are left. With
        `prefers_newer`, add a segment of a newer result of the same file instead, if possible.
        """
        misfits = 0
        for segment in self._best_first(first, gains):
            if prefers_newer and self._add_from_newer_version(segment, remaining):
                continue
            tokens = self._tokens(segment)
            if tokens <= remaining():
                self._add(segment, tokens)
            else:
                misfits += 1
                if misfits == max_misfits:
                    return

    def _add_from_newer_version(self, segment: int, remaining: Callable[[], float]) -> bool:
        """Try to add, instead of `segment`, a segment of a newer result of the same file.

        The newer segment must have all tokens of `segment` that are not visible yet. Prefer the
        newest result. Return False if no newer result has such a segment that fits.
        """
        result = int(self._tracking.segment_result.values[segment])
        context = self._builder.context
        newer_results = context.history.files.newer_results(result, context.result_count)
        if not newer_results:
            return False
        # The tokens of the segment that are not visible yet.
        ids = self._tracking.ids_of_segments(segment, segment + 1)
        new_ids = ids[~self._visible[ids]]
        for newer in newer_results:
            # A result that is complete or has a fixed excerpt cannot get more segments.
            can_get_segments = self._builder.available[newer] or newer in self._builder.segments
            if not can_get_segments:
                continue
            newer_segment = self._segment_with(newer, new_ids)
            if newer_segment is None or not self._present_gain(newer_segment):
                continue
            tokens = self._tokens(newer_segment)
            if tokens <= remaining():
                self._add(newer_segment, tokens)
                return True
        return False

    def _segment_with(self, result: int, ids: Ids) -> int | None:
        """Return the first segment of a result that contains all these tokens, or None."""
        first, stop = self._first_segment[result], self._first_segment[result + 1]
        for segment in range(first, stop):
            if np.isin(ids, self._tracking.ids_of_segments(segment, segment + 1)).all():
                return segment
        return None

    def _best_first(self, first: int, gains: Floats) -> Iterator[int]:
        """Yield the segment with the largest present gain, again and again, while one has a gain.

        `gains` has the gains of the segments from `first` on, as they are now. The caller may add
        each yielded segment. This makes gains fall, and never rise. So an earlier gain is an upper
        bound, and the present gain must be computed only for the segment with the largest bound.
        """
        by_first_gain = _largest_first(gains)  # its last bound is below 0, which ends the loop
        next_bound, next_index = next(by_first_gain)
        # Segments whose gain was computed again, as (-gain, segment): the largest gain is at [0].
        heap: list[tuple[float, int]] = []
        while heap or next_bound > 0:
            # Take the segment with the largest bound.
            if not heap or next_bound >= -heap[0][0]:
                segment = first + next_index
                next_bound, next_index = next(by_first_gain)
            else:
                _, segment = heapq.heappop(heap)
            gain = self._present_gain(segment)
            if not gain:
                continue
            # If no other segment has a larger bound, none has a larger gain. Otherwise put this
            # segment back: its present gain is its new bound.
            if gain >= next_bound and (not heap or gain >= -heap[0][0]):
                yield segment
            else:
                heapq.heappush(heap, (-gain, segment))

    def _present_gain(self, segment: int) -> float:
        """Return the present gain of one segment, by the formula of `_gains`, but faster."""
        new_weight, used_count = 0.0, 0
        is_visible, is_used, weight = self._is_visible, self._is_used, self._weight
        for token in self._ids[self._ids_at[segment] : self._ids_at[segment + 1]]:
            if not is_visible[token]:
                new_weight += weight[token]
                used_count += is_used[token]
        if not new_weight:
            return 0.0
        factor = float(self._gain_factors[segment])
        return float(factor * (1 + used_count) * (1 + new_weight) ** 0.8)

    def _tokens(self, segment: int) -> int:
        """Return the tokens that a segment adds to its result's excerpt, gaps included.

        If the excerpt has no segment yet, also count the result's call, the message and the mark.
        If the segment fills the space between two others, the gap between them is subtracted.
        """
        result = int(self._tracking.segment_result.values[segment])
        segments = self._builder.segments.get(result, ())
        is_first = segment == self._first_segment[result]
        is_last = segment + 1 == self._first_segment[result + 1]
        has_gap_before = not is_first and segment - 1 not in segments
        has_gap_after = not is_last and segment + 1 not in segments
        gap_count = int(has_gap_before) + int(has_gap_after)
        tokens = int(self._tracking.segment_tokens.values[segment])
        if segments:  # the segment was in a gap, which is counted already
            return tokens + self._gap_tokens * (gap_count - 1)
        mark = mark_tokens(self._builder.context, result)
        call_tokens = self._builder.call_tokens[result]
        return tokens + self._gap_tokens * gap_count + call_tokens + MESSAGE_OVERHEAD + mark

    def _add(self, segment: int, tokens: int) -> None:
        """Add a segment to its result's excerpt, at a cost of `tokens`."""
        result = int(self._tracking.segment_result.values[segment])
        self._builder.add_segment(result, segment, tokens)
        self._excerpt_tokens[result] = self._excerpt_tokens.get(result, 0) + tokens
        self._mark_visible(segment)

    def _mark_visible(self, segment: int) -> None:
        """Mark the tokens of a segment as visible."""
        for token in self._ids[self._ids_at[segment] : self._ids_at[segment + 1]]:
            self._is_visible[token] = True


def _largest_first(gains: Floats) -> Iterator[tuple[float, int]]:
    """Yield each gain above 0 with its index, the largest gain first. Yield (-1.0, -1) at the end.

    Of equal gains, the one with the lowest index comes first. Usually few gains are read, so only
    the largest are sorted at once, and the others when they are needed.
    """
    indexes = np.flatnonzero(gains)
    threshold = 0.0
    if len(indexes) > SORTED_FIRST:
        threshold = np.partition(gains[indexes], -SORTED_FIRST)[-SORTED_FIRST]
    is_large = gains[indexes] >= threshold
    for group in (indexes[is_large], indexes[~is_large]):
        order = group[np.argsort(-gains[group], kind="stable")]
        yield from zip(gains[order].tolist(), order.tolist(), strict=True)
    yield -1.0, -1


def _sums_between(bounds: Ints, numbers: NDArray[Any]) -> NDArray[Any]:
    """Return, for each bound but the last, the sum of the numbers up to the next bound.

    `bounds` are indexes. `numbers[0]` is the number at index `bounds[0]`.
    """
    sums = np.concatenate(([0], np.cumsum(numbers)))  # of the numbers before each index
    return np.diff(sums[bounds - bounds[0]])
