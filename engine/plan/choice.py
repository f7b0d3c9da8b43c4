"""Results chosen for one model call: complete or in excerpts, and the tokens they take."""

from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from engine.history.frozen import Added, Frozen, KeptText, Replacement
from engine.plan.marking import excerpt_of
from engine.plan.moment import Moment
from engine.plan.text_cap import sizes_of


class Choice:
    """What is shown of a moment's results, while it is being chosen; `used` are its tokens.

    `free` is what retained text leaves of the budget. `segments` are those of each result shown in
    part, in the order added; `kept` are excerpts as they will be, `cut_calls` calls whose arguments
    are shortened. What no call asked for is not available.
    """

    def __init__(self, moment: Moment, text: KeptText) -> None:
        self.moment = moment
        self.text = text
        self.used = 0
        self.complete: list[int] = []
        self.kept: dict[int, Replacement] = {}
        self.cut_calls: dict[int, Replacement] = {}
        self.added: dict[int, Added] = {}
        self.segments: dict[int, list[int]] = {}
        self.available: NDArray[np.bool_] = moment.asked.copy()
        self.calls: list[int] = moment.calls.tolist()
        self.costs: list[int] = moment.costs.tolist()
        self.free = moment.view.budget - int(sizes_of(text, moment).sum())

    @classmethod
    def repeated(cls, moment: Moment, last: Frozen, results: Iterable[int]) -> Self:
        """These results of the last prompt, as they were there."""
        choice = cls(moment, last.text)
        for result in results:
            if result in last.calls:
                choice.cut_call(result, last.calls[result])
            if result in last.excerpts:
                choice.keep(result, last.excerpts[result])
            else:
                choice.take(result)
            if result in last.added:
                choice.add_behind(result, last.added[result])
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

    def keep(self, result: int, excerpt: Replacement) -> None:
        """Shows an excerpt as it is."""
        self.used += self.calls[result] + excerpt.tokens
        self.kept[result] = excerpt
        self.available[result] = False

    def cut_call(self, result: int, made: Replacement) -> None:
        """Has a result's call in a shorter form. Do it before the result is shown."""
        self.costs[result] += made.tokens - self.calls[result]
        self.calls[result] = made.tokens
        self.cut_calls[result] = made

    def add_behind(self, result: int, made: Added) -> None:
        """Shows a text behind that of a complete result."""
        self.used += made.tokens
        self.added[result] = made

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

    def excerpts(self) -> dict[int, Replacement]:
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
        used += sum(behind.tokens for behind in self.added.values())
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

    def _text(self, result: int) -> Replacement:
        return excerpt_of(self.moment, result, self.segments[result])
