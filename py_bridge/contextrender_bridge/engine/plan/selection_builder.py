"""What is chosen for one model call: the text that stays, and results, complete or in excerpts."""

from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.call_text import sizes_of
from contextrender_bridge.engine.plan.excerpt_text import excerpt_of
from contextrender_bridge.engine.plan.selection import (
    RestoredText,
    Selection,
    Substitute,
    TextSelection,
)


class SelectionBuilder:
    """What is shown of a moment's results, while it is being chosen; `used` are its tokens.

    `free` is what retained text leaves of the budget. `segments` are those of each result shown in
    part, in the order added; `kept` are excerpts as they will be, `arguments` those of calls that
    are cut. What no call asked for is not available.
    """

    def __init__(self, moment: CallContext, text: TextSelection) -> None:
        self.moment = moment
        self.text = text
        self.used = 0
        self.complete: list[int] = []
        self.kept: dict[int, Substitute] = {}
        self.arguments: dict[int, Substitute] = {}
        self.restored: dict[int, RestoredText] = {}
        self.segments: dict[int, list[int]] = {}
        self.available: NDArray[np.bool_] = moment.asked.copy()
        self.calls: list[int] = moment.calls.tolist()
        self.costs: list[int] = moment.costs.tolist()
        self.free = moment.view.budget - int(sizes_of(text, moment).sum())

    @classmethod
    def repeated(cls, moment: CallContext, last: Selection, results: Iterable[int]) -> Self:
        """These results of the last prompt, as they were there."""
        choice = cls(moment, last.text)
        for result in results:
            if result in last.arguments:
                choice.cut_call(result, last.arguments[result])
            if result in last.excerpts:
                choice.keep(result, last.excerpts[result])
            else:
                choice.take(result)
            if result in last.restored:
                choice.restore(result, last.restored[result])
        return choice

    @property
    def left_over(self) -> int:
        """Tokens that nothing takes yet."""
        return self.free - self.used

    def take(self, result: int) -> None:
        """Shows a result complete."""
        self.used += self.costs[result]
        self.complete.append(result)
        self.available[result] = False

    def keep(self, result: int, excerpt: Substitute) -> None:
        """Shows an excerpt as it is."""
        self.used += self.calls[result] + excerpt.tokens
        self.kept[result] = excerpt
        self.available[result] = False

    def cut_call(self, result: int, made: Substitute) -> None:
        """Has a result's call in a shorter form. Do it before the result is shown."""
        self.costs[result] += made.tokens - self.calls[result]
        self.calls[result] = made.tokens
        self.arguments[result] = made

    def restore(self, result: int, made: RestoredText) -> None:
        """Shows parts of other results behind a complete result's own text."""
        self.used += made.tokens
        self.restored[result] = made

    def add_segment(self, result: int, segment: int, tokens: int) -> None:
        """Shows one more segment of a result, at a cost of `tokens`."""
        self.used += tokens
        self.segments.setdefault(result, []).append(segment)
        self.available[result] = False

    def settle(self, result: int, estimate: int) -> None:
        """Turns a result's segments, counted as `estimate`, into its final text, within the budget.

        Complete, if that costs no more. Segments that do not fit go, the last first.
        """
        chosen = self.segments.pop(result)
        self.used -= estimate
        while chosen:
            excerpt = excerpt_of(self.moment, result, chosen)
            cost = self.calls[result] + excerpt.tokens
            if self.costs[result] <= min(cost, self.left_over):
                self.take(result)
                return
            if cost <= self.left_over:
                self.keep(result, excerpt)
                return
            chosen.pop()
        self.available[result] = True

    def take_greedily(self, order: Sequence[int], limit: float) -> None:
        """Complete results in this order while `used` stays within `limit`."""
        least = min(self.costs, default=0)
        for result in order:
            if self.used + least > limit:
                return
            if self.available[result] and self.used + self.costs[result] <= limit:
                self.take(result)

    def excerpts(self) -> dict[int, Substitute]:
        """The excerpts as texts, recounted; the last segments go while all exceeds what is free.

        A result that costs no more complete than its excerpt is then complete.
        """
        texts = {result: self._text(result) for result in self.segments}
        for result, excerpt in list(texts.items()):
            if self.costs[result] <= self.calls[result] + excerpt.tokens:
                del self.segments[result], texts[result]
                self.complete.append(result)
        made = self.kept | texts
        used = sum(self.costs[result] for result in self.complete)
        used += sum(self.calls[result] + excerpt.tokens for result, excerpt in made.items())
        used += sum(behind.tokens for behind in self.restored.values())
        while used > self.free and self.segments:
            result = next(reversed(self.segments))
            used -= made.pop(result).tokens
            self.segments[result].pop()
            if self.segments[result]:
                made[result] = self._text(result)
                used += made[result].tokens
            else:
                used -= self.calls[result]
                del self.segments[result]
        self.used = used
        return made

    def _text(self, result: int) -> Substitute:
        return excerpt_of(self.moment, result, self.segments[result])
