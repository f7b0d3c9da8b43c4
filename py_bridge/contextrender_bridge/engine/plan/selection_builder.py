"""What is chosen for one model call: the text that stays, and results, complete or in excerpts.

Retained text is capped, so that results have room (docs/policies.md, Text): message by message, the
oldest first. Results do not leave with the text of their turn.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.plan.call_context import CallContext, Ints
from contextrender_bridge.engine.plan.excerpt_text import excerpt_of
from contextrender_bridge.engine.plan.retained_text import excerpts_of
from contextrender_bridge.engine.plan.selection import (
    ALL_TEXT,
    RestoredText,
    Selection,
    Substitute,
    TextSelection,
)

CAP: Final = 0.5
TARGET: Final = 0.3
TASK_SHARE: Final = 0.15
NEWEST_SHARE: Final = 0.25
"""The share of the budget kept for the newest results beside text that may not leave."""


def sizes_of(text: TextSelection, moment: CallContext) -> Ints:
    """Tokens of each message's text that stays and that the budget charges."""
    sizes = moment.text_tokens.copy()
    sizes[list(text.dropped)] = 0
    for position, made in text.cut.items():
        sizes[position] = 0 if position in moment.outside else made.tokens
    return sizes


def gone_from(text: TextSelection, moment: CallContext) -> NDArray[np.bool_]:
    """By message: whether its text is not there as it was."""
    gone = np.zeros(moment.messages, np.bool_)
    gone[[*text.dropped, *text.cut]] = True
    return gone


def text_at(moment: CallContext, before: TextSelection = ALL_TEXT) -> TextSelection:
    """The text that stays: as before up to `CAP` of the budget, else until `TARGET` of it is left.

    The last assistant message never leaves, nor the first user message while it is at most
    `TASK_SHARE`. Where that leaves the newest results less than `NEWEST_SHARE`, it is cut.
    """
    budget, sizes = moment.view.budget, sizes_of(before, moment)
    total = int(sizes.sum())
    if total <= CAP * budget:
        return before
    dropped = list(before.dropped)
    cut = dict(before.cut)
    for position in np.flatnonzero(_movable(moment) & (sizes > 0)).tolist():
        if total <= TARGET * budget:
            break
        total -= int(sizes[position])
        sizes[position] = 0
        cut.pop(position, None)
        dropped.append(position)
    if total > (1 - NEWEST_SHARE) * budget:
        cut |= _cut_short(moment, sizes)
    return TextSelection(tuple(sorted(dropped)), cut)


def _cut_short(moment: CallContext, sizes: Ints) -> dict[int, Substitute]:
    """Excerpts of what may not leave, the task excepted, which is short."""
    view, task = moment.view, moment.view.history.first_user
    staying = {int(p): int(sizes[p]) for p in np.flatnonzero(sizes) if p != task}
    room = int((1 - NEWEST_SHARE) * view.budget) - int(sizes.sum()) + sum(staying.values())
    return excerpts_of(staying, room, view.text_of, view.counter)


def _movable(moment: CallContext) -> NDArray[np.bool_]:
    """Messages whose text may leave: all charged ones but the last assistant's and a short task."""
    movable = np.ones(moment.messages, np.bool_)
    movable[list(moment.outside)] = False
    if moment.last_assistant >= 0:
        movable[moment.last_assistant] = False
    task = moment.view.history.first_user
    if 0 <= task < moment.messages:
        short = moment.view.history.text_tokens[task] <= TASK_SHARE * moment.view.budget
        movable[task] &= not short
    return movable


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
