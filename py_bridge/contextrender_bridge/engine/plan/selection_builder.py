"""A builder of one model call's selection: its text, and results, complete or in excerpts."""

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
    """A selection of a call's results, while they are being selected.

    - `budget_for_results` is the part of the budget that the text does not use. `used_tokens` is
      the part that the selected results use, and `remaining_tokens` the difference.
    - `available` says for each result whether it may still be selected. A result is not available
      if it has no call or is selected already: complete, as an excerpt or with its first segment.
    - `segments` has the segments of results that become excerpts, in the order they were added.
      `fixed_excerpts` has excerpts that do not change any more.
    - `restored` has the texts that are shown again after complete results. `arguments` has the
      cut arguments of calls, by result.
    - `call_tokens` has the tokens of each result's call, and `costs` the tokens of both together.
    """

    def __init__(self, context: CallContext, text: TextSelection) -> None:
        """Start with `text` and no result selected."""
        self.context = context
        self.text = text
        self.used_tokens = 0
        self.complete: list[int] = []
        self.fixed_excerpts: dict[int, Substitute] = {}
        self.arguments: dict[int, Substitute] = {}
        self.restored: dict[int, RestoredText] = {}
        self.segments: dict[int, list[int]] = {}
        self.available: NDArray[np.bool_] = context.has_call.copy()
        self.call_tokens: list[int] = context.call_tokens.tolist()
        self.costs: list[int] = context.costs.tolist()
        self.budget_for_results = context.view.budget - int(sizes_of(text, context).sum())

    @classmethod
    def from_previous(
        cls, context: CallContext, previous: Selection, results: Iterable[int]
    ) -> Self:
        """Return a builder with these results, shown as in the `previous` selection."""
        builder = cls(context, previous.text)
        for result in results:
            if result in previous.arguments:
                builder.cut_call(result, previous.arguments[result])
            if result in previous.excerpts:
                builder.select_excerpt(result, previous.excerpts[result])
            else:
                builder.select_complete(result)
            if result in previous.restored:
                builder.restore(result, previous.restored[result])
        return builder

    @property
    def remaining_tokens(self) -> int:
        """The tokens of the budget that are not used yet."""
        return self.budget_for_results - self.used_tokens

    def select_complete(self, result: int) -> None:
        """Select a complete result."""
        self.used_tokens += self.costs[result]
        self.complete.append(result)
        self.available[result] = False

    def select_excerpt(self, result: int, excerpt: Substitute) -> None:
        """Select an excerpt that does not change any more."""
        self.used_tokens += self.call_tokens[result] + excerpt.tokens
        self.fixed_excerpts[result] = excerpt
        self.available[result] = False

    def cut_call(self, result: int, arguments: Substitute) -> None:
        """Show a result's call with cut arguments. The result must not be selected yet."""
        self.costs[result] += arguments.tokens - self.call_tokens[result]
        self.call_tokens[result] = arguments.tokens
        self.arguments[result] = arguments

    def restore(self, result: int, text: RestoredText) -> None:
        """Show parts of other results again, after a complete result."""
        self.used_tokens += text.tokens
        self.restored[result] = text

    def add_segment(self, result: int, segment: int, tokens: int) -> None:
        """Add a segment to a result's excerpt, at a cost of `tokens`."""
        self.used_tokens += tokens
        self.segments.setdefault(result, []).append(segment)
        self.available[result] = False  # it cannot be selected complete any more

    def fix_excerpt(self, result: int, estimate: int) -> None:
        """Replace a result's segments by a fixed excerpt, whose tokens are counted exactly.

        `estimate` is the number of tokens that `used_tokens` has for the segments so far. Drop the
        last segments until the excerpt fits. If the complete result fits and costs no more, select
        it instead. If no segment fits, the result becomes available again.
        """
        segments = self.segments.pop(result)
        self.used_tokens -= estimate
        while segments:
            excerpt = excerpt_of(self.context, result, segments)
            cost = self.call_tokens[result] + excerpt.tokens
            if self.costs[result] <= min(cost, self.remaining_tokens):
                self.select_complete(result)
                return
            if cost <= self.remaining_tokens:
                self.select_excerpt(result, excerpt)
                return
            segments.pop()
        self.available[result] = True

    def select_in_order(self, order: Sequence[int], limit: float) -> None:
        """Select complete results in this order, and skip those that exceed the limit.

        The limit is for `used_tokens`, the tokens of all selected results.
        """
        smallest_cost = min(self.costs, default=0)
        for result in order:
            if self.used_tokens + smallest_cost > limit:
                return
            if self.available[result] and self.used_tokens + self.costs[result] <= limit:
                self.select_complete(result)

    def finish_excerpts(self) -> dict[int, Substitute]:
        """Finish the selection, and return all of its excerpts by result.

        Call this when all results are selected. It writes the excerpts of the selected segments;
        the `fixed_excerpts` are written already. It selects a result complete if that costs no more
        than its excerpt, and replaces the estimates in `used_tokens` by the exact tokens. If the
        selection then exceeds the budget, it drops the last segments.
        """
        # Write the excerpts, and select a result complete if its excerpt costs as much or more.
        new_excerpts = {result: self._excerpt(result) for result in self.segments}
        for result, excerpt in list(new_excerpts.items()):
            if self.costs[result] <= self.call_tokens[result] + excerpt.tokens:
                del self.segments[result], new_excerpts[result]
                self.complete.append(result)
        # Count the tokens of the whole selection exactly.
        excerpts = self.fixed_excerpts | new_excerpts
        self.used_tokens = sum(self.costs[result] for result in self.complete)
        self.used_tokens += sum(
            self.call_tokens[result] + excerpt.tokens for result, excerpt in excerpts.items()
        )
        self.used_tokens += sum(text.tokens for text in self.restored.values())
        while self.remaining_tokens < 0 and self.segments:
            self._drop_last_segment(excerpts)
        return excerpts

    def _drop_last_segment(self, excerpts: dict[int, Substitute]) -> None:
        """Drop the last segment of the last excerpt, and the excerpt if it has no other segment."""
        result = next(reversed(self.segments))
        self.used_tokens -= excerpts.pop(result).tokens
        self.segments[result].pop()
        if self.segments[result]:
            excerpts[result] = self._excerpt(result)
            self.used_tokens += excerpts[result].tokens
        else:
            self.used_tokens -= self.call_tokens[result]
            del self.segments[result]

    def _excerpt(self, result: int) -> Substitute:
        """Return the excerpt of a result that shows its selected segments."""
        return excerpt_of(self.context, result, self.segments[result])
