"""The steps that fill a selection: newest results, pinned ones, complete ones, and excerpts.

The newest and the pinned results are complete if possible, otherwise excerpts, otherwise at least
their beginnings (docs/policies.md).
"""

from collections.abc import Sequence
from typing import Final

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.excerpt_text import GAP, call_of_result, mark
from contextrender_bridge.engine.plan.excerpts import ExcerptBuilder
from contextrender_bridge.engine.plan.policy_input import PolicyInput
from contextrender_bridge.engine.plan.scores import Scores
from contextrender_bridge.engine.plan.selection import Substitute
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder
from contextrender_bridge.engine.plan.truncated_calls import cut_call
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD

MIN_EXCERPT: Final = 200
"""The fewest tokens of an excerpt, unless the result must be shown."""

MIN_SHOWN: Final = 60
"""The tokens reserved for each result that must be shown and is not selected yet."""

MAX_EXCERPT_SHARE: Final = 1 / 8
MAX_NEW_EXCERPT_SHARE: Final = 1 / 14
"""The largest shares of the budget for one excerpt (docs/policies.md)."""


def max_excerpt(view: PolicyInput) -> float:
    """Return the most tokens of an excerpt without its call, if each call rebuilds the prompt."""
    return max(MIN_EXCERPT, MAX_EXCERPT_SHARE * view.budget)


def max_new_excerpt(view: PolicyInput) -> float:
    """Return the limit of `max_excerpt` for a prompt that later calls repeat and pay for again."""
    return max(MIN_EXCERPT, MAX_NEW_EXCERPT_SHARE * view.budget)


def take_newest(
    builder: SelectionBuilder, token_limit: float, scores: Scores, max_excerpt_tokens: float
) -> None:
    """Select the newest turn's results complete, the smallest first, within `token_limit`.

    The others become excerpts of at most `max_excerpt_tokens` each, without their calls. If
    `newest_share` is 0, nothing is selected here, and the results compete with all others.
    """
    if not builder.context.view.parameters.newest_share:
        return
    newest = [result for result in builder.context.newest if builder.available[result]]
    smallest_first = sorted(newest, key=lambda result: (builder.costs[result], result))
    too_large: list[int] = []
    for result in smallest_first:
        if builder.costs[result] <= min(token_limit, builder.remaining_tokens):
            token_limit -= builder.costs[result]
            builder.select_complete(result)
        else:
            too_large.append(result)
    if too_large:
        show_in_part(builder, too_large, token_limit, scores, max_excerpt_tokens)


def show_in_part(
    builder: SelectionBuilder,
    results: Sequence[int],
    token_limit: float,
    scores: Scores,
    max_excerpt_tokens: float,
) -> None:
    """Select an excerpt of each of these results, which must be shown.

    The excerpts share evenly what `token_limit` leaves beside their calls. If the shares are too
    small, the excerpts exceed it, with up to `MIN_EXCERPT` tokens each. If no excerpt fits, the
    result is shown as well as the remaining tokens permit (`_show_best_effort`).
    """
    excerpts = ExcerptBuilder(builder, scores)
    for index, result in enumerate(results):
        unselected, later_results = results[index:], results[index + 1 :]
        reserved_tokens = sum(min(builder.costs[r], MIN_SHOWN) for r in later_results)
        available_tokens = builder.remaining_tokens - reserved_tokens
        call_tokens = sum(builder.call_tokens[r] for r in unselected)
        share = (token_limit - call_tokens) / len(unselected)
        if share < MIN_SHOWN:
            share = MIN_EXCERPT
        tokens_before = builder.used_tokens
        size = min(share, max_excerpt_tokens, available_tokens)
        excerpts.add_excerpt(result, size + builder.call_tokens[result])
        if builder.available[result]:
            _show_best_effort(builder, result, available_tokens)
        token_limit -= builder.used_tokens - tokens_before


def _show_best_effort(builder: SelectionBuilder, result: int, token_limit: int) -> None:
    """Select a result within the limit: complete, or its first line, with its call cut if needed.

    The result has at most half of the limit, so that its call has the rest: a larger result is
    replaced by its first line. Nothing is selected if even that does not fit.
    """
    if builder.costs[result] <= token_limit:
        builder.select_complete(result)
        return
    first_line = None
    max_tokens = int(max_excerpt(builder.context.view))
    size = int(builder.context.sizes[result])
    if size > token_limit // 2:
        first_line = first_line_of(builder.context, result, min(token_limit // 2, max_tokens))
        if first_line is None:
            return
        size = first_line.tokens
    if builder.call_tokens[result] + size > token_limit:
        # A cut call has at most the tokens of an excerpt, or of its result if that has more.
        call_limit = min(token_limit - size, max(max_tokens, size))
        arguments = _cut_arguments(builder.context, result, call_limit)
        if arguments is None:
            return
        builder.cut_call(result, arguments)
    if first_line is None:
        builder.select_complete(result)
    else:
        builder.select_excerpt(result, first_line)


def first_line_of(context: CallContext, result: int, limit: int) -> Substitute | None:
    """Return a result's first line in at most `limit` tokens, or None if no word fits.

    It begins with the mark of an excerpt if that fits, too.
    """
    view = context.view
    position, size = view.history.results.message[result], int(context.sizes[result])
    text = view.text_of(position)
    start = len(text) - len(text.lstrip())
    first_line = text[start:].partition("\n")[0]
    for largest_mark in (mark(position, size, size), ""):
        line_limit = limit - MESSAGE_OVERHEAD - view.counter.text(largest_mark + GAP)
        if line_limit <= 0:
            continue
        line = view.counter.cut(first_line, line_limit)
        omitted_tokens = max(1, size - MESSAGE_OVERHEAD - view.counter.text(line))
        line_mark = mark(position, size, omitted_tokens) if largest_mark else ""
        opening = line_mark + line + GAP
        tokens = view.counter.text(opening) + MESSAGE_OVERHEAD
        return Substitute(opening, tokens, ranges=(start, len(line)))
    return None


def _cut_arguments(context: CallContext, result: int, limit: int) -> Substitute | None:
    """Return the arguments of a result's call, cut so that the call has at most `limit` tokens."""
    tool, arguments = call_of_result(context.view, result)
    return cut_call(tool, arguments, limit, context.view.counter)


PINNED_SHARE: Final = 0.5
"""The share of the tokens left by the text that pinned results may take."""


def take_pinned(builder: SelectionBuilder, scores: Scores) -> None:
    """Select pinned results, the newest first: complete within their share, then excerpts.

    Pinned results that are selected already count towards the share.
    """
    pinned = builder.context.pinned
    token_limit = PINNED_SHARE * max(0, builder.free_tokens) - _selected_pins_cost(builder)
    too_large: list[int] = []
    for result in reversed(pinned):
        if not builder.available[result]:
            continue
        if builder.costs[result] <= min(token_limit, builder.remaining_tokens):
            token_limit -= builder.costs[result]
            builder.select_complete(result)
        else:
            too_large.append(result)
    if too_large:
        token_limit = min(token_limit, builder.remaining_tokens)
        _add_pinned_excerpts(builder, too_large, token_limit, scores)


def _add_pinned_excerpts(
    builder: SelectionBuilder, results: list[int], token_limit: float, scores: Scores
) -> None:
    """Add excerpts that share the limit, each of at least `MIN_EXCERPT` tokens if that is left.

    A result is omitted if less than `MIN_SHOWN` tokens are left. If its excerpt does not fit, its
    first line is shown.
    """
    excerpts = ExcerptBuilder(builder, scores)
    for index, result in enumerate(results):
        call_tokens = builder.call_tokens[result]
        share = max(MIN_EXCERPT, token_limit / (len(results) - index) - call_tokens)
        size = min(share, token_limit - call_tokens)
        if size < MIN_SHOWN:
            continue
        tokens_before = builder.used_tokens
        excerpts.add_excerpt(result, size + call_tokens)
        if builder.available[result]:
            first_line = first_line_of(builder.context, result, int(size))
            if first_line is not None:
                builder.select_excerpt(result, first_line)
        token_limit -= builder.used_tokens - tokens_before


def _selected_pins_cost(builder: SelectionBuilder) -> int:
    """Return the tokens of the pinned results that are selected, without the newest ones."""
    complete, newest = {*builder.complete}, {*builder.context.newest}
    cost = 0
    for result in builder.context.pinned:
        if result in newest:
            continue
        if result in complete:
            cost += builder.costs[result]
        elif result in builder.fixed_excerpts:
            cost += builder.call_tokens[result] + builder.fixed_excerpts[result].tokens
    return cost


COMPLETE_SHARE: Final = 0.9
"""The share of the tokens for complete results, in a prompt that is not repeated."""


def select_results(
    builder: SelectionBuilder,
    scores: Scores,
    *,
    share: float | None = None,
    max_excerpt: float,
    complete_share: float = COMPLETE_SHARE,
) -> SelectionBuilder:
    """Select the newest results, then pinned ones, then others complete and as excerpts.

    Complete results are in the order of their result scores, up to `complete_share` of the tokens.
    Excerpts have the segments with the largest gains; then complete results that still fit are
    selected. Excerpts of the newest results have at most `max_excerpt` tokens. With `share`, only
    this share of the free tokens may be used, besides those of the newest results.
    """
    free, tokens_before = max(0, builder.free_tokens), builder.used_tokens
    newest_share = builder.context.view.parameters.newest_share
    take_newest(builder, newest_share * free, scores, max_excerpt)
    newest_tokens = builder.used_tokens - tokens_before
    take_pinned(builder, scores)

    # The limits are for `used_tokens`, which counts all selected results.
    if share is None:
        complete_limit, limit = complete_share * free, float(free)
    else:
        complete_limit = min(free, newest_tokens + complete_share * share * free)
        limit = min(free, newest_tokens + share * free)
    builder.select_in_order(scores.best_first, complete_limit)
    ExcerptBuilder(builder, scores).fill_up(limit)
    builder.select_in_order(scores.best_first, limit)
    return builder
