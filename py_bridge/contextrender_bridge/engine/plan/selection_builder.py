"""A builder of one model call's selection: its text, and results, complete or in excerpts."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.call_text import are_changed, sizes_of
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
        self.budget_for_results = context.budget - int(sizes_of(text, context).sum())

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

    def visible_tokens(self) -> NDArray[np.bool_]:
        """Return, for each tracked token, whether the prompt shows it with the selection so far."""
        context, tracking = self.context, self.context.tracking
        results = context.history.results

        # Complete results, and the calls of all selected results, except for cut calls.
        is_complete = np.zeros(tracking.event_count, np.bool_)  # a flag for each event
        is_complete[[results.event[result] for result in self.complete]] = True
        selected = {*self.complete, *self.fixed_excerpts, *self.segments}
        is_complete[[results.call_event[result] for result in selected - {*self.arguments}]] = True
        is_visible = self._text_tokens() | tracking.tokens_of_events(is_complete)

        # Substitutes, restored texts, and segments of new excerpts.
        texts = [excerpt.text for excerpt in self.fixed_excerpts.values()]
        texts += [arguments.text for arguments in self.arguments.values()]
        texts += [restored.text for restored in self.restored.values()]
        is_visible[tracking.ids_of_texts(texts)] = True
        for segment in chain.from_iterable(self.segments.values()):
            is_visible[tracking.ids_of_segments(segment, segment + 1)] = True
        return is_visible

    def _text_tokens(self) -> NDArray[np.bool_]:
        """Return, for each tracked token, whether it is in a message's text that the prompt shows.

        It is cached in `tokens_of_texts`, because several builders of a call have the same texts.
        """
        context, history = self.context, self.context.history
        if (cached := context.tokens_of_texts.get(id(self.text))) is not None:
            _, cached_tokens = cached
            return cached_tokens
        first_events = np.array(history.first_events[: context.message_count], np.int64)
        result_events = np.array(history.results.event[: context.result_count], np.int64)
        is_complete_text = np.zeros(context.tracking.event_count, np.bool_)
        is_complete_text[first_events[~are_changed(self.text, context)]] = True
        is_complete_text[result_events] = False  # a result is its message's first event
        has_token = context.tracking.tokens_of_events(is_complete_text)
        cut_texts = [substitute.text for substitute in self.text.cut.values()]
        has_token[context.tracking.ids_of_texts(cut_texts)] = True
        # With the text in the entry, no other object can get the same `id`.
        context.tokens_of_texts[id(self.text)] = self.text, has_token
        return has_token
