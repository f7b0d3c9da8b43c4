"""Selections in which a history summary replaces the beginning of the history.

The summary is shown instead of a tool result that it covers, and the result's call stays. All
providers accept a tool result at any point of a history, and expect external text in it. If no
covered result has a call, the summary is shown instead of an earlier user message
(docs/policies.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from contextrender_bridge.engine.history.history import NO_CALL
from contextrender_bridge.engine.plan.call_context import NO_SUBSTITUTE, CallContext, to_substitute
from contextrender_bridge.engine.plan.selection import Selection, Substitute, TextSelection
from contextrender_bridge.engine.policies.baselines import prune
from contextrender_bridge.engine.text.excerpt import excerpt
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD
from contextrender_bridge.evaluation.baselines.summaries import Summaries, Summary

SUMMARY_KIND: Final = "summary"
"""The kind of the substitute that is a summary of the history."""

CALL_SHARE: Final = 0.1
"""The share of the budget that the call of the result that shows the summary should not exceed."""

HEADER_TOKENS: Final = 32
"""The tokens reserved for a summary's first line, `_header`."""
TASK_SHARE: Final = 0.2
"""The largest share of the budget for the first user message beside a summary."""
TEXT_SHARE: Final = 0.4
"""The largest share of the budget for text that is shown although the summary covers it."""


@dataclass(frozen=True, slots=True)
class SummaryMethod:
    """A way to use history summaries, each of at most `share` of the budget.

    `text_of(context, covered)` returns which texts are shown beside a summary of the first
    `covered` messages, or None if they cannot be shown beside it. `boundary(context)` returns how
    many messages the next summary has to cover.
    """

    share: float
    text_of: Callable[[CallContext, int], TextSelection | None]
    boundary: Callable[[CallContext], int]


def select_with_summary(
    context: CallContext, method: SummaryMethod, summaries: Summaries
) -> Selection:
    """Return a selection with the latest summary and all messages after it.

    If these exceed the budget, write a new summary that covers more messages. If none is written,
    or it does not fit either, use the former summary with the newest results that fit. Without any
    summary, select as `prune` does.
    """
    former = summaries.latest
    if former and (selection := _selection_with(context, method, former)):
        return selection
    # Extend the summary by the messages that the method wants covered.
    covered, already_covered = method.boundary(context), former.covered if former else 0
    if covered > already_covered:
        limit = int(method.share * context.budget) - HEADER_TOKENS
        new_summary = summaries.extend(context.originals(already_covered, covered), limit)
        if new_summary and (selection := _selection_with(context, method, new_summary)):
            return selection
    # Show the former summary with as many results as fit.
    if former and (selection := _selection_with(context, method, former, needs_all=False)):
        return selection
    return prune(context)


def call_reserve(context: CallContext) -> int:
    """Return the tokens to reserve for a tool call: the call of the result the summary replaces."""
    return int(CALL_SHARE * context.budget)


def _selection_with(
    context: CallContext, method: SummaryMethod, summary: Summary, *, needs_all: bool = True
) -> Selection | None:
    """Return a selection with the summary, the texts of `method`, and the results after it.

    Return None if they do not fit. If `needs_all` is false, results that do not fit are skipped
    instead, and newer results are selected before older ones.
    """
    text = method.text_of(context, summary.covered)
    placement = _place_summary(context, text, summary) if text else None
    if placement is None:
        return None
    # A summary in a user message is a part of the text, and then `cost` is 0.
    remaining_tokens = context.budget - context.tokens_of(placement.text) - placement.cost
    # Go from the newest result to the oldest one that the summary does not cover.
    covered_result_count = context.history.results_before(summary.covered)
    selected: list[int] = []
    for result in reversed(range(covered_result_count, len(context.costs))):
        # If the result has no call, or the summary covers its call, the result cannot be shown.
        if context.history.results.call_message[result] < summary.covered:
            continue
        if context.costs[result] <= remaining_tokens:
            selected.append(result)
            remaining_tokens -= int(context.costs[result])
        elif needs_all:
            return None
    if remaining_tokens < 0:  # the texts and the summary alone exceed the budget
        return None
    return placement.selection(context.message_count, selected)


@dataclass(frozen=True, slots=True)
class _Placement:
    """The position of a summary in the prompt: instead of a result, or in a user message.

    If the prompt shows `summary` instead of the result number `result`, `cost` is the tokens of the
    summary and of the result's call. If a user message has the summary, `text` has the substitute
    of this message, and the other fields keep their defaults.
    """

    text: TextSelection
    result: int = -1
    cost: int = 0
    summary: Substitute | None = None

    def selection(self, messages: int, results: list[int]) -> Selection:
        """Return a selection of these results and the summary, which may replace `self.result`."""
        if self.summary is None:
            return Selection(messages, self.text, tuple(results))
        excerpts = {self.result: self.summary}
        order = (self.result, *results)
        return Selection(messages, self.text, tuple(results), excerpts, order=order)


def _place_summary(
    context: CallContext, text: TextSelection, summary: Summary
) -> _Placement | None:
    """Return where the prompt shows a summary; None if there is no place.

    The summary replaces the text of a covered result, and the prompt still shows the result's call.
    The result is the latest one with a small call or, if no call is small, the one with the
    smallest call. If no covered result has a call, the summary is shown in a user message.
    """
    results, counter = context.history.results, context.counter
    covered_result_count = context.history.results_before(summary.covered)
    newest_first = [
        r for r in reversed(range(covered_result_count)) if results.call_event[r] != NO_CALL
    ]
    summary_text = _header(summary, covered_result_count) + summary.text
    if not newest_first:
        return _place_in_user_message(context, text, summary, summary_text)
    call_tokens, limit = results.call_tokens, call_reserve(context)
    with_smallest_call = min(newest_first, key=lambda r: call_tokens[r])
    replaced = next((r for r in newest_first if call_tokens[r] <= limit), with_smallest_call)
    call_message = results.call_message[replaced]
    if call_message in text.dropped:
        # The prompt must show this message for its call. Its text is replaced by an empty one.
        text = _with_substitute(text, call_message, NO_SUBSTITUTE)
    substitute = Substitute(summary_text, counter.message({"content": summary_text}), SUMMARY_KIND)
    return _Placement(text, replaced, call_tokens[replaced] + substitute.tokens, substitute)


def _with_substitute(text: TextSelection, message: int, substitute: Substitute) -> TextSelection:
    """Return a text selection that shows a message, with a substitute for its text."""
    dropped = tuple(dropped for dropped in text.dropped if dropped != message)
    return replace(text, dropped=dropped, cut={**text.cut, message: substitute})


def _place_in_user_message(
    context: CallContext, text: TextSelection, summary: Summary, summary_text: str
) -> _Placement | None:
    """Return the placement of a summary in a user message: the latest one that it covers.

    The message must be budgeted; return None if there is none. If the message's text is dropped,
    the summary replaces it. Otherwise the summary follows the text.
    """
    covered_user_messages = [
        position
        for position in range(summary.covered)
        if context.history.roles[position] == "user" and position not in context.unbudgeted
    ]
    if not covered_user_messages:
        return None
    host = covered_user_messages[-1]
    if host not in text.dropped:  # keep the message's text, or the excerpt that is shown of it
        cut = text.cut.get(host)
        shown_text = cut.text if cut else context.text_of(host)
        summary_text = f"{shown_text}\n\n{summary_text}"
    return _Placement(_with_substitute(text, host, to_substitute(summary_text, context.counter)))


def _header(summary: Summary, covered_result_count: int) -> str:
    """Return the line before a summary: how much it covers, and how to get covered results."""
    return (
        f"[Summary made by a model of the {summary.covered} messages up to here, "
        f"{covered_result_count} tool results among them; recall gives any of them complete]\n"
    )


def text_after(context: CallContext, covered: int) -> TextSelection:
    """Return a text selection that drops the text of the first `covered` messages.

    Two kinds of messages are not dropped. The first user message, which has the task, is cut to
    `TASK_SHARE` of the budget. Unbudgeted messages stay as they are.
    """
    history = context.history
    first_user, limit = history.first_user, int(TASK_SHARE * context.budget)
    covered_texts = [
        position
        for position in range(covered)
        if position not in context.unbudgeted and not history.is_result(position)
    ]
    cut: dict[int, Substitute] = {}
    if first_user in covered_texts and history.text_tokens[first_user] > limit:
        text = excerpt(context.text_of(first_user), limit - MESSAGE_OVERHEAD, context.counter)
        cut[first_user] = to_substitute(text, context.counter)
    return TextSelection(tuple(p for p in covered_texts if p != first_user), cut)


def text_within_share(context: CallContext) -> TextSelection:
    """Return the text that `retain_text` selects within `TEXT_SHARE` of the budget."""
    return context.retain_text(int(TEXT_SHARE * context.budget))


def text_of_all(context: CallContext, covered: int) -> TextSelection | None:
    """Return `text_within_share`, or None if it drops text that the summary does not cover."""
    text = text_within_share(context)
    return text if dropped_until(context, text) <= covered else None


def dropped_until(context: CallContext, text: TextSelection) -> int:
    """Return the number of messages up to the last one whose turn's text is dropped; 0 if none.

    Unbudgeted messages and the first user message do not count, because they are never dropped.
    """
    never_dropped = {*context.unbudgeted, context.history.first_user}
    dropped_messages = (
        position
        for position, turn in enumerate(context.history.turns)
        if turn in text.dropped_turns and position not in never_dropped
    )
    return max(dropped_messages, default=-1) + 1
