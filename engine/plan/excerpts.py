"""Excerpts made of the segments that say most that is not said elsewhere (docs/policies.md, G)."""

import heapq
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.plan.choice import Choice
from engine.plan.density import Density, worth_of
from engine.plan.marking import GAP, mark_tokens
from engine.plan.moment import Ints
from engine.plan.text_cap import gone_from
from engine.text.tokens import MESSAGE_OVERHEAD

HEAD_SHARE: Final = 0.5
PATIENCE_FOR_ONE: Final = 8
PATIENCE_FOR_ALL: Final = 12
LEAST_TO_FILL: Final = 40


class Excerpting:
    """Adds segments to a choice greedily by G; each covers its tokens, so others gain less.

    A segment that would show no tracked token anew is never added.
    """

    def __init__(self, choice: Choice, density: Density) -> None:
        moment, tracking = choice.moment, choice.moment.tracking
        self._choice, self._tracking = choice, tracking
        self._gap = moment.view.counter.text(GAP)
        self._spent: dict[int, int] = {}
        self._first: list[int] = tracking.first_segment.values.tolist()
        self._seen = _visible(choice)
        ids, at = tracking.segment_ids.values, tracking.segment_ids_at.values
        used = tracking.used.values
        fresh = ~self._seen[ids]
        new = _sums(fresh, at)
        new_used = _sums(fresh & used[ids], at)
        odds = np.exp(-2.73) * worth_of(moment)
        of_result = (odds / np.diff(tracking.first_segment.values)) ** 0.4
        overlap = (1 + density.overlap_latest) * (1 + density.overlap_task)
        self._base = (
            of_result[tracking.segment_result.values]
            * overlap**0.3
            / (tracking.segment_tokens.values + 4)
        )
        gain = self._base * (1 + new_used) * (1 + new) ** 0.8
        self._gain = np.where(new > 0, gain, 0.0)
        self._ids, self._at = memoryview(ids), memoryview(at)
        self._is_seen = memoryview(self._seen.view(np.uint8))
        self._is_used = memoryview(used.view(np.uint8))

    def one(self, result: int, size: float) -> None:
        """An excerpt of a result, in `size` tokens with its call: half its head, then its best.

        Settled at once, so that what comes later never takes of it.
        """
        first, stop = self._first[result], self._first[result + 1]
        at = first
        while at < stop:
            room = size * HEAD_SHARE if at > first else size
            tokens = self._tokens(at)
            if self._spent.get(result, 0) + tokens > room:
                break
            self._add(at, tokens)
            at += 1
        if at > first:
            candidates = np.arange(at, stop)
            self._add_best(candidates, lambda: size - self._spent[result], PATIENCE_FOR_ONE)
            self._choice.settle(result, self._spent.pop(result))

    def fill_up(self, limit: float) -> None:
        """The best segments of all available results, while the choice is within `limit`."""
        choice = self._choice
        if limit - choice.used > LEAST_TO_FILL:
            hidden = choice.available[self._tracking.segment_result.values] & (self._gain > 0)
            self._add_best(np.flatnonzero(hidden), lambda: limit - choice.used, PATIENCE_FOR_ALL)

    def _add_best(self, candidates: Ints, room: Callable[[], float], patience: int) -> None:
        """Adds segments by present gain; gives up after `patience` that did not fit."""
        for segment in self._best_first(candidates):
            tokens = self._tokens(segment)
            if tokens <= room():
                self._add(segment, tokens)
            else:
                patience -= 1
                if not patience:
                    return

    def _best_first(self, candidates: Ints) -> Iterator[int]:
        """Segments by present gain. Gains only fall, so an earlier one is an upper bound."""
        gain = self._gain[candidates]
        order = np.argsort(-gain, kind="stable")
        segments: list[int] = candidates[order].tolist()
        bounds: list[float] = [*gain[order].tolist(), -1.0]
        waiting: list[tuple[float, int]] = []
        next_one = 0
        while waiting or next_one < len(segments):
            if not waiting or bounds[next_one] >= -waiting[0][0]:
                segment = segments[next_one]
                next_one += 1
            else:
                segment = heapq.heappop(waiting)[1]
            present = self._present_gain(segment)
            if not present:
                continue
            if present >= bounds[next_one] and (not waiting or present >= -waiting[0][0]):
                yield segment
            else:
                heapq.heappush(waiting, (-present, segment))

    def _present_gain(self, segment: int) -> float:
        new = new_used = 0
        seen, used = self._is_seen, self._is_used
        for token in self._ids[self._at[segment] : self._at[segment + 1]]:
            if not seen[token]:
                new += 1
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
        self._seen[self._tracking.ids_of_segment(segment)] = True


def _visible(choice: Choice) -> NDArray[np.bool_]:
    """By tracked token: whether it stands in what is retained or chosen so far."""
    moment, tracking = choice.moment, choice.moment.tracking
    history = moment.view.history
    results = history.results
    stays = ~gone_from(choice.text, moment)
    events = np.zeros(tracking.events, np.bool_)
    events[np.array(history.first_events[: moment.messages], np.int64)[stays]] = True
    events[np.array(results.event[: moment.results], np.int64)] = False
    events[[results.event[result] for result in choice.complete]] = True
    shown = [*choice.complete, *choice.kept, *choice.segments]
    whole = [result for result in shown if result not in choice.cut_calls]
    events[[results.call_event[result] for result in whole]] = True
    seen = tracking.tokens_of_events(events)
    shortened = (choice.kept, choice.cut_calls, choice.text.cut)
    for made in chain.from_iterable(texts.values() for texts in shortened):
        seen[moment.known_in(made.text)] = True
    for segment in chain.from_iterable(choice.segments.values()):
        seen[tracking.ids_of_segment(segment)] = True
    return seen


def _sums(flags: NDArray[np.bool_], at: Ints) -> Ints:
    """How many flags are set between neighbouring places."""
    totals = np.concatenate(([0], np.cumsum(flags)))
    sums: Ints = totals[at[1:]] - totals[at[:-1]]
    return sums
