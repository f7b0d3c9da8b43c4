"""Excerpts of the segments that say most of what is not shown elsewhere (docs/policies.md, G)."""

import heapq
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.plan.call_context import Ints
from contextrender_bridge.engine.plan.call_text import gone_from
from contextrender_bridge.engine.plan.density import Density
from contextrender_bridge.engine.plan.excerpt_text import GAP, mark_tokens
from contextrender_bridge.engine.plan.ranking import Floats
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD

HEAD_SHARE: Final = 0.25
LONG_HEAD_SHARE: Final = 0.5
PATIENCE_FOR_ONE: Final = 8
PATIENCE_FOR_ALL: Final = 12
LEAST_TO_FILL: Final = 40
AT_ONCE: Final = 256


class ExcerptBuilder:
    """Adds segments to a choice greedily by G; each covers its tokens, so others gain less.

    A segment that would show no tracked token anew is never added.
    """

    def __init__(self, choice: SelectionBuilder, density: Density) -> None:
        moment, tracking = choice.moment, choice.moment.tracking
        self._choice, self._tracking, self._base = choice, tracking, density.of_segments
        self._gap = moment.view.counter.text(GAP)
        self._spent: dict[int, int] = {}
        self._first: list[int] = tracking.first_segment.values.tolist()
        self._seen = _visible(choice)
        self._ids = memoryview(tracking.segment_ids.values)
        self._at = memoryview(tracking.segment_ids_at.values)
        self._is_seen = memoryview(self._seen.view(np.uint8))
        self._density = density
        self._weight = memoryview(density.of_tokens)
        self._is_used = memoryview(tracking.is_used.values.view(np.uint8))

    def one(self, result: int, size: float) -> None:
        """An excerpt of a result, in `size` tokens with its call: a quarter head, then its best.

        Where its best says little the head goes on up to half: most of a log is not tracked.
        Fixed at once, so that later choices do not shrink it.
        """
        first, stop = self._first[result], self._first[result + 1]
        at = self._add_head(first, stop, size, HEAD_SHARE)
        if at > first:
            gains = self._gains(at, stop)
            self._add_best(at, gains, lambda: size - self._spent[result], PATIENCE_FOR_ONE)
            self._add_head(at, stop, size, LONG_HEAD_SHARE)
            self._choice.settle(result, self._spent.pop(result))

    def _add_head(self, at: int, stop: int, size: float, share: float) -> int:
        """Segments in their order while all are within `share` of `size`; where that ends.

        The first one of a result may take all of `size`.
        """
        result = int(self._tracking.segment_result.values[at]) if at < stop else -1
        while at < stop:
            shown = self._choice.segments.get(result, ())
            if at not in shown:
                tokens = self._tokens(at)
                if self._spent.get(result, 0) + tokens > (size * share if shown else size):
                    break
                self._add(at, tokens)
            at += 1
        return at

    def fill_up(self, limit: float) -> None:
        """The best segments of all available results, while the choice is within `limit`."""
        choice = self._choice
        if limit - choice.used > LEAST_TO_FILL:
            available = np.flatnonzero(choice.available)
            first = self._first[int(available[0])] if len(available) else self._first[-1]
            gains = self._gains(first, self._first[-1])
            gains *= choice.available[self._tracking.segment_result.values[first:]]
            self._add_best(first, gains, lambda: limit - choice.used, PATIENCE_FOR_ALL)

    def again(self, result: int, room: float) -> list[int]:
        """The segments of a result that say most that is not in view, in `room` tokens, in order.

        Empty where none says any. All of them where all fit.
        """
        first, stop = self._first[result], self._first[result + 1]
        gains = self._gains(first, stop)
        if not gains.any():
            return []
        sizes = self._tracking.segment_tokens.values
        if int(sizes[first:stop].sum()) <= room:
            chosen = list(range(first, stop))
        else:
            chosen, patience = [], PATIENCE_FOR_ONE
            for segment in self._best_first(first, gains):
                tokens = int(sizes[segment]) + self._gap
                if tokens > room:
                    patience -= 1
                    if not patience:
                        break
                    continue
                chosen.append(segment)
                room -= tokens
                self._see(segment)
            return sorted(chosen)
        self._seen[self._tracking.ids_of_segments(first, stop)] = True
        return chosen

    def _gains(self, first: int, stop: int) -> Floats:
        """The present gain of each of these segments."""
        tracking = self._tracking
        at = tracking.segment_ids_at.values[first : stop + 1]
        said = slice(at[0], at[-1])
        fresh = ~self._seen[tracking.segment_ids.values[said]]
        new = _sums(fresh * self._density.of_said[said], at)
        new_used = _sums(fresh & self._density.used_said[said], at)
        gains: Floats = self._base[first:stop] * (1 + new_used) * (1 + new) ** 0.8
        gains[new == 0] = 0.0
        return gains

    def _add_best(
        self, first: int, gains: Floats, room: Callable[[], float], patience: int
    ) -> None:
        """Adds segments from `first` on by present gain; gives up after `patience` too large."""
        for segment in self._best_first(first, gains):
            tokens = self._tokens(segment)
            if tokens <= room():
                self._add(segment, tokens)
            else:
                patience -= 1
                if not patience:
                    return

    def _best_first(self, first: int, gains: Floats) -> Iterator[int]:
        """Segments by present gain. Gains only fall, so an earlier one is an upper bound."""
        best = _largest_first(gains)
        bound, following = next(best)
        waiting: list[tuple[float, int]] = []
        while waiting or bound > 0:
            if not waiting or bound >= -waiting[0][0]:
                segment = first + following
                bound, following = next(best)
            else:
                segment = heapq.heappop(waiting)[1]
            present = self._present_gain(segment)
            if not present:
                continue
            if present >= bound and (not waiting or present >= -waiting[0][0]):
                yield segment
            else:
                heapq.heappush(waiting, (-present, segment))

    def _present_gain(self, segment: int) -> float:
        new, new_used = 0.0, 0
        seen, used, weight = self._is_seen, self._is_used, self._weight
        for token in self._ids[self._at[segment] : self._at[segment + 1]]:
            if not seen[token]:
                new += weight[token]
                new_used += used[token]
        return float(self._base[segment]) * (1 + new_used) * (1 + new) ** 0.8 if new else 0.0

    def _tokens(self, segment: int) -> int:
        """What a segment adds: gaps, and for a result's first one the call, message and mark."""
        result = int(self._tracking.segment_result.values[segment])
        have = self._choice.segments.get(result, ())
        gaps = (segment > self._first[result] and segment - 1 not in have) + (
            segment + 1 < self._first[result + 1] and segment + 1 not in have
        )
        tokens = int(self._tracking.segment_tokens.values[segment]) + self._gap * (gaps - 1)
        return tokens if have else tokens + self._opening(result)

    def _opening(self, result: int) -> int:
        moment = self._choice.moment
        mark = mark_tokens(moment.view, result)
        return self._choice.calls[result] + MESSAGE_OVERHEAD + mark + self._gap

    def _add(self, segment: int, tokens: int) -> None:
        result = int(self._tracking.segment_result.values[segment])
        self._choice.add_segment(result, segment, tokens)
        self._spent[result] = self._spent.get(result, 0) + tokens
        self._see(segment)

    def _see(self, segment: int) -> None:
        """Its tokens are in view."""
        for token in self._ids[self._at[segment] : self._at[segment + 1]]:
            self._is_seen[token] = True


def _largest_first(gains: Floats) -> Iterator[tuple[float, int]]:
    """Gains and their places, the largest first, of equal ones the first; then -1.

    Few are ever asked for, so only the largest are sorted at first.
    """
    some = np.flatnonzero(gains)
    least = np.partition(gains[some], -AT_ONCE)[-AT_ONCE] if len(some) > AT_ONCE else 0.0
    for places in (some[gains[some] >= least], some[gains[some] < least]):
        order = places[np.argsort(-gains[places], kind="stable")]
        yield from zip(gains[order].tolist(), order.tolist(), strict=True)
    yield -1.0, -1


def _visible(choice: SelectionBuilder) -> NDArray[np.bool_]:
    """By tracked token: whether it stands in what is retained or chosen so far."""
    moment, tracking = choice.moment, choice.moment.tracking
    results, events = moment.view.history.results, np.zeros(tracking.events, np.bool_)
    events[[results.event[result] for result in choice.complete]] = True
    shown = {*choice.complete, *choice.kept, *choice.segments} - {*choice.arguments}
    events[[results.call_event[result] for result in shown]] = True
    seen = _said(choice) | tracking.tokens_of_events(events)
    texts = [made.text for each in (choice.kept, choice.arguments) for made in each.values()]
    texts += [made.text for made in choice.restored.values()]
    seen[tracking.ids_of_texts(texts)] = True
    for segment in chain.from_iterable(choice.segments.values()):
        seen[tracking.ids_of_segments(segment, segment + 1)] = True
    return seen


def _said(choice: SelectionBuilder) -> NDArray[np.bool_]:
    """By tracked token: whether it stands in retained text; the same for all choices with it."""
    moment, history = choice.moment, choice.moment.view.history
    known = moment.said.get(id(choice.text))
    if known is not None:
        return known[1]
    events = np.zeros(moment.tracking.events, np.bool_)
    stays = ~gone_from(choice.text, moment)
    events[np.array(history.first_events[: moment.messages], np.int64)[stays]] = True
    events[np.array(history.results.event[: moment.results], np.int64)] = False
    said = moment.tracking.tokens_of_events(events)
    said[moment.tracking.ids_of_texts([made.text for made in choice.text.cut.values()])] = True
    moment.said[id(choice.text)] = choice.text, said
    return said


def _sums(numbers: NDArray[Any], at: Ints) -> NDArray[Any]:
    """The sums between neighbouring places, the first of which is the first number's."""
    return np.diff(np.concatenate(([0], np.cumsum(numbers)))[at - at[0]])
