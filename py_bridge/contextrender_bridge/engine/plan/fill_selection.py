"""The steps that fill a selection: newest results, pinned ones, complete ones, and excerpts.

The newest and the pinned results are shown complete if possible, otherwise as excerpts, otherwise
at least with their first lines (docs/policies.md).
"""

from collections.abc import Sequence
from typing import Final

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.excerpts import ExcerptBuilder
from contextrender_bridge.engine.plan.first_line import first_line_of, show_best_effort
from contextrender_bridge.engine.plan.scores import Scores
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder

MIN_EXCERPT: Final = 200
"""The fewest tokens that an excerpt is made with, unless fewer are left for a required result."""

MIN_SHOWN: Final = 60
"""The tokens that are reserved for each required result until it is selected."""

MAX_EXCERPT_SHARE: Final = 1 / 8
MAX_NEW_EXCERPT_SHARE: Final = 1 / 14
"""The largest shares of the budget for one excerpt (docs/policies.md)."""


def max_excerpt(context: CallContext) -> float:
    """Return the most tokens of an excerpt, without its call, in a prompt for one call only."""
    return max(MIN_EXCERPT, MAX_EXCERPT_SHARE * context.budget)


def max_new_excerpt(context: CallContext) -> float:
    """Return the most tokens of an excerpt, without its call, in a prompt that later calls repeat.

    It is smaller than `max_excerpt`, because each later call pays for the excerpt again.
    """
    return max(MIN_EXCERPT, MAX_NEW_EXCERPT_SHARE * context.budget)


def take_newest(
    builder: SelectionBuilder, token_limit: float, scores: Scores, max_excerpt_tokens: float
) -> None:
    """Select the newest turn's results: complete within `token_limit`, the smallest first.

    Then select excerpts of the results that do not fit. An excerpt has at most `max_excerpt_tokens`
    without its call. If the parameter `newest_share` is 0, select nothing, because then the newest
    results are ranked with all others.
    """
    if not builder.context.parameters.newest_share:
        return
    # Select complete results while they fit, and excerpts of the others.
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

    The excerpts and their calls have `token_limit` tokens together, or more if each excerpt would
    be too small otherwise. If no excerpt of a result fits, show as much of the result as the
    remaining tokens of the budget permit.
    """
    excerpts = ExcerptBuilder(builder, scores)
    for index, result in enumerate(results):
        share = _excerpt_share(builder, results[index:], token_limit)
        # Leave enough of the budget for at least the first line of each later result.
        later_results = results[index + 1 :]
        reserved_tokens = sum(min(builder.costs[r], MIN_SHOWN) for r in later_results)
        available_tokens = builder.remaining_tokens - reserved_tokens
        # This size is without the result's call, but `add_excerpt` expects it with the call.
        size = min(share, max_excerpt_tokens, available_tokens)
        tokens_before = builder.used_tokens
        excerpts.add_excerpt(result, size + builder.call_tokens[result])
        is_unselected = builder.available[result]
        if is_unselected:  # not even one segment fits
            # A first line and a cut call have a limit of their own, not `max_excerpt_tokens`.
            max_tokens = int(max_excerpt(builder.context))
            show_best_effort(builder, result, available_tokens, max_tokens)
        token_limit -= builder.used_tokens - tokens_before


def _excerpt_share(builder: SelectionBuilder, results: Sequence[int], token_limit: float) -> float:
    """Return the tokens that each result's excerpt may have: an equal share of what calls leave.

    The calls of all results use a part of `token_limit`. If a share is below `MIN_SHOWN`, return
    `MIN_EXCERPT`: the results must be shown, so their excerpts may exceed the limit.
    """
    call_tokens = sum(builder.call_tokens[result] for result in results)
    share = (token_limit - call_tokens) / len(results)
    return share if share >= MIN_SHOWN else MIN_EXCERPT


PINNED_SHARE: Final = 0.5
"""The share of the budget for results that pinned results may have."""


def take_pinned(builder: SelectionBuilder, scores: Scores) -> None:
    """Select the pinned results: complete ones, the newest first, and excerpts of the others.

    They have `PINNED_SHARE` of the budget for results. The tokens of pinned results that are
    selected already are subtracted from the share.
    """
    pinned = builder.context.pinned
    token_limit = PINNED_SHARE * max(0, builder.budget_for_results) - _selected_pins_cost(builder)
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
    """Select an excerpt of each result, within `token_limit` tokens for all excerpts and calls.

    Each result has an equal share, but at least `MIN_EXCERPT` tokens if so many are left. If fewer
    than `MIN_SHOWN` are left, omit the result. If no segment fits, show only its first line.
    """
    excerpts = ExcerptBuilder(builder, scores)
    for index, result in enumerate(results):
        call_tokens = builder.call_tokens[result]
        # An equal share of what is left for this result and all later ones.
        share = token_limit / (len(results) - index) - call_tokens
        size = min(max(share, MIN_EXCERPT), token_limit - call_tokens)
        if size < MIN_SHOWN:
            continue
        tokens_before = builder.used_tokens
        excerpts.add_excerpt(result, size + call_tokens)
        is_unselected = builder.available[result]
        if is_unselected:  # not even one segment fits
            first_line = first_line_of(builder.context, result, int(size))
            if first_line is not None:
                builder.select_excerpt(result, first_line)
        token_limit -= builder.used_tokens - tokens_before


def _selected_pins_cost(builder: SelectionBuilder) -> int:
    """Return the tokens of the pinned results that are selected already, with their calls.

    Results of the newest turn do not count, because they have a share of their own.
    """
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
"""The share for complete results, in a prompt that is not repeated (`select_results`)."""


def select_results(
    builder: SelectionBuilder,
    scores: Scores,
    *,
    share: float | None = None,
    max_excerpt: float,
    complete_share: float = COMPLETE_SHARE,
) -> SelectionBuilder:
    """Select the newest results, then the pinned ones, then other results, and return the builder.

    The other results are selected complete, in the order of their scores, and then as excerpts.

    - The newest results may use the share `newest_share` (a parameter) of the budget for results.
      Their excerpts have at most `max_excerpt` tokens each.
    - With `share`, the pinned results, the other results and those that `builder` already has may
      together use this share of the budget for results. Without `share`, all results, also the
      newest ones, may together use the whole budget for results.
    - Complete results are only added while `complete_share` of these tokens is not used, because
      the rest is for excerpts.
    """
    budget, tokens_before = max(0, builder.budget_for_results), builder.used_tokens
    newest_share = builder.context.parameters.newest_share
    take_newest(builder, newest_share * budget, scores, max_excerpt)
    newest_tokens = builder.used_tokens - tokens_before
    take_pinned(builder, scores)

    # The limits are for `used_tokens`, the tokens of all results that are selected so far.
    if share is None:
        complete_limit, limit = complete_share * budget, float(budget)
    else:
        complete_limit = min(budget, newest_tokens + complete_share * share * budget)
        limit = min(budget, newest_tokens + share * budget)
    builder.select_in_order(scores.best_first, complete_limit)
    ExcerptBuilder(builder, scores).fill_up(limit)
    builder.select_in_order(scores.best_first, limit)  # use what the excerpts left unused
    return builder
