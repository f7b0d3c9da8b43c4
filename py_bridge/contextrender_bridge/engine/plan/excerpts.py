"""The choice of segments for excerpts, by the tracked tokens they add (docs/policies.md, G).

Long because new excerpts, the rest of the budget and restored parts are filled by one choice.
"""

import heapq
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.plan.call_context import Ints
from contextrender_bridge.engine.plan.call_text import are_changed
from contextrender_bridge.engine.plan.density import Density
from contextrender_bridge.engine.plan.excerpt_text import GAP, mark_tokens
from contextrender_bridge.engine.plan.ranking import Floats
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD

HEAD_SHARE: Final = 0.25
LONG_HEAD_SHARE: Final = 0.5
PATIENCE_FOR_ONE: Final = 8
PATIENCE_FOR_ALL: Final = 12
"""The choice for one or for all results ends when so many segments were too large."""

MIN_TO_FILL: Final = 40
AT_ONCE: Final = 256


class ExcerptBuilder:
    """Adds segments to a selection greedily by their gain G.

    The tokens of an added segment are then visible, so the gains of others fall. A segment without
    a token that is not visible is never added.
    """

    def __init__(self, builder: SelectionBuilder, density: Density) -> None:
        context, tracking = builder.context, builder.context.tracking
        self._builder, self._tracking, self._base = builder, tracking, density.of_segments
        self._gap = context.view.counter.text(GAP)
        self._excerpt_tokens: dict[int, int] = {}
        self._first: list[int] = tracking.first_segment.values.tolist()
        self._visible = _visible_tokens(builder)
        self._ids = memoryview(tracking.segment_ids.values)
        self._at = memoryview(tracking.segment_ids_at.values)
        self._is_visible = memoryview(self._visible.view(np.uint8))
        self._density = density
        self._weight = memoryview(density.of_tokens)
        self._is_used = memoryview(tracking.is_used.values.view(np.uint8))

    def add_excerpt(self, result: int, size: float) -> None:
        """Add an excerpt of a result, of at most `size` tokens with its call.

        It has a quarter of head, and then the segments with the largest gains. If these are few, as
        in a log, the head is continued up to a half. Later excerpts do not shrink it.
        """
        first, stop = self._first[result], self._first[result + 1]
        at = self._add_head(first, stop, size, HEAD_SHARE)
        if at > first:
            gains = self._gains(at, stop)
            self._add_best(at, gains, lambda: size - self._excerpt_tokens[result], PATIENCE_FOR_ONE)
            self._add_head(at, stop, size, LONG_HEAD_SHARE)
            self._builder.settle(result, self._excerpt_tokens.pop(result))

    def _add_head(self, at: int, stop: int, size: float, share: float) -> int:
        """Add segments from `at` on, in order, within `share` of `size`. Return the next one.

        The first segment of an excerpt may take all of `size`.
        """
        result = int(self._tracking.segment_result.values[at]) if at < stop else -1
        while at < stop:
            segments = self._builder.segments.get(result, ())
            if at not in segments:
                tokens = self._tokens(at)
                limit = size * share if segments else size
                if self._excerpt_tokens.get(result, 0) + tokens > limit:
                    break
                self._add(at, tokens)
            at += 1
        return at

    def fill_up(self, limit: float) -> None:
        """Add the segments with the largest gains, while the selection is within `limit`."""
        builder = self._builder
        if limit - builder.used_tokens > MIN_TO_FILL:
            available = np.flatnonzero(builder.available)
            first = self._first[int(available[0])] if len(available) else self._first[-1]
            gains = self._gains(first, self._first[-1])
            gains *= builder.available[self._tracking.segment_result.values[first:]]
            self._add_best(first, gains, lambda: limit - builder.used_tokens, PATIENCE_FOR_ALL)

    def select_unseen_segments(
        self, result: int, limit: float, replaced: Collection[int] = ()
    ) -> list[int]:
        """Return the segments of a result with the largest gains, within `limit` tokens, in order.

        Return all segments if they fit, and none if no segment has a token that is not visible.
        The `replaced` segments are never among them.
        """
        first, stop = self._first[result], self._first[result + 1]
        gains = self._gains(first, stop)
        gains[[segment - first for segment in replaced]] = 0.0
        if not gains.any():
            return []
        sizes = self._tracking.segment_tokens.values
        current = [segment for segment in range(first, stop) if segment not in replaced]
        if int(sizes[current].sum()) + self._gap * len(replaced) <= limit:
            for segment in current:
                self._mark_visible(segment)
            return current
        segments: list[int] = []
        patience = PATIENCE_FOR_ONE
        for segment in self._best_first(first, gains):
            tokens = int(sizes[segment]) + self._gap
            if tokens > limit:
                patience -= 1
                if not patience:
                    break
                continue
            segments.append(segment)
            limit -= tokens
            self._mark_visible(segment)
        return sorted(segments)

    def _gains(self, first: int, stop: int) -> Floats:
        """Return the present gain of the segments from `first` up to `stop`."""
        tracking = self._tracking
        at = tracking.segment_ids_at.values[first : stop + 1]
        tokens = slice(at[0], at[-1])
        is_new = ~self._visible[tracking.segment_ids.values[tokens]]
        new = _sums(is_new * self._density.of_segment_tokens[tokens], at)
        new_used = _sums(is_new & self._density.segment_tokens_used[tokens], at)
        gains: Floats = self._base[first:stop] * (1 + new_used) * (1 + new) ** 0.8
        gains[new == 0] = 0.0
        return gains

    def _add_best(
        self, first: int, gains: Floats, remaining: Callable[[], float], patience: int
    ) -> None:
        """Add segments from `first` on by present gain, until `patience` of them do not fit."""
        for segment in self._best_first(first, gains):
            tokens = self._tokens(segment)
            if tokens <= remaining():
                self._add(segment, tokens)
            else:
                patience -= 1
                if not patience:
                    return

    def _best_first(self, first: int, gains: Floats) -> Iterator[int]:
        """Yield segments by present gain. An earlier gain is an upper bound, as gains only fall."""
        by_first_gain = _largest_first(gains)
        bound, next_segment = next(by_first_gain)
        by_last_gain: list[tuple[float, int]] = []
        while by_last_gain or bound > 0:
            if not by_last_gain or bound >= -by_last_gain[0][0]:
                segment = first + next_segment
                bound, next_segment = next(by_first_gain)
            else:
                segment = heapq.heappop(by_last_gain)[1]
            gain = self._present_gain(segment)
            if not gain:
                continue
            if gain >= bound and (not by_last_gain or gain >= -by_last_gain[0][0]):
                yield segment
            else:
                heapq.heappush(by_last_gain, (-gain, segment))

    def _present_gain(self, segment: int) -> float:
        new, new_used = 0.0, 0
        is_visible, is_used, weight = self._is_visible, self._is_used, self._weight
        for token in self._ids[self._at[segment] : self._at[segment + 1]]:
            if not is_visible[token]:
                new += weight[token]
                new_used += is_used[token]
        return float(self._base[segment]) * (1 + new_used) * (1 + new) ** 0.8 if new else 0.0

    def _tokens(self, segment: int) -> int:
        """Return the tokens that a segment adds, its gaps included.

        A result's first segment also adds the call, the message and the mark.
        """
        result = int(self._tracking.segment_result.values[segment])
        segments = self._builder.segments.get(result, ())
        gaps = (segment > self._first[result] and segment - 1 not in segments) + (
            segment + 1 < self._first[result + 1] and segment + 1 not in segments
        )
        tokens = int(self._tracking.segment_tokens.values[segment]) + self._gap * (gaps - 1)
        if segments:
            return tokens
        mark = mark_tokens(self._builder.context.view, result)
        return tokens + self._builder.call_tokens[result] + MESSAGE_OVERHEAD + mark + self._gap

    def _add(self, segment: int, tokens: int) -> None:
        result = int(self._tracking.segment_result.values[segment])
        self._builder.add_segment(result, segment, tokens)
        self._excerpt_tokens[result] = self._excerpt_tokens.get(result, 0) + tokens
        self._mark_visible(segment)

    def _mark_visible(self, segment: int) -> None:
        """Mark the tokens of a segment as visible."""
        for token in self._ids[self._at[segment] : self._at[segment + 1]]:
            self._is_visible[token] = True


def _largest_first(gains: Floats) -> Iterator[tuple[float, int]]:
    """Yield the gains above 0 and their places, the largest first, then -1 once.

    Of equal gains the first comes first. Usually few gains are read, so the largest are sorted
    first and the others only if they are needed.
    """
    places = np.flatnonzero(gains)
    is_many = len(places) > AT_ONCE
    threshold = np.partition(gains[places], -AT_ONCE)[-AT_ONCE] if is_many else 0.0
    for group in (places[gains[places] >= threshold], places[gains[places] < threshold]):
        order = group[np.argsort(-gains[group], kind="stable")]
        yield from zip(gains[order].tolist(), order.tolist(), strict=True)
    yield -1.0, -1


def _visible_tokens(builder: SelectionBuilder) -> NDArray[np.bool_]:
    """Return, for each tracked token, whether it is visible in what is selected so far."""
    context, tracking = builder.context, builder.context.tracking
    results, events = context.view.history.results, np.zeros(tracking.event_count, np.bool_)
    events[[results.event[result] for result in builder.complete]] = True
    selected = {*builder.complete, *builder.fixed_excerpts, *builder.segments}
    events[[results.call_event[result] for result in selected - {*builder.arguments}]] = True
    is_visible = _text_tokens(builder) | tracking.tokens_of_events(events)
    texts = [excerpt.text for excerpt in builder.fixed_excerpts.values()]
    texts += [arguments.text for arguments in builder.arguments.values()]
    texts += [restored.text for restored in builder.restored.values()]
    is_visible[tracking.ids_of_texts(texts)] = True
    for segment in chain.from_iterable(builder.segments.values()):
        is_visible[tracking.ids_of_segments(segment, segment + 1)] = True
    return is_visible


def _text_tokens(builder: SelectionBuilder) -> NDArray[np.bool_]:
    """Return, for each tracked token, whether the text selection has it. This is cached."""
    context, history = builder.context, builder.context.view.history
    cached = context.tokens_of_texts.get(id(builder.text))
    if cached is not None:
        return cached[1]
    events = np.zeros(context.tracking.event_count, np.bool_)
    is_complete = ~are_changed(builder.text, context)
    events[np.array(history.first_events[: context.message_count], np.int64)[is_complete]] = True
    events[np.array(history.results.event[: context.result_count], np.int64)] = False
    has_token = context.tracking.tokens_of_events(events)
    cut_texts = [substitute.text for substitute in builder.text.cut.values()]
    has_token[context.tracking.ids_of_texts(cut_texts)] = True
    context.tokens_of_texts[id(builder.text)] = builder.text, has_token
    return has_token


def _sums(numbers: NDArray[Any], at: Ints) -> NDArray[Any]:
    """Return the sums of the numbers between consecutive places, counted from the first place."""
    return np.diff(np.concatenate(([0], np.cumsum(numbers)))[at - at[0]])
