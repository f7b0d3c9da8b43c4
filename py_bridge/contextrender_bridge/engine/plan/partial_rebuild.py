"""Partial rebuild: the beginning of the last prompt stays the same, the rest is selected again.

The provider has cached the beginning. It stays if the prompt is then nearly as good as after a full
rebuild. (docs/policies.md, contextrender_cache_aware)
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from contextrender_bridge.engine.plan.append_step import first_new, results_before
from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.fill_selection import max_new_excerpt, select_results
from contextrender_bridge.engine.plan.ranking import Floats
from contextrender_bridge.engine.plan.scores import Scores, worth_of
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder

MAX_LOSS: Final = 0.1
"""A partial rebuild may have a total worth (`worth_of`) that is lower by this share."""

EXCERPT_WORTH: Final = 0.75
"""The worth of an excerpt, as a share of the worth of the complete result."""

EVERY_CUT: Final = 4
"""The number of latest cuts that are all tried. Then every second, fourth, eighth and so on is."""

COMPLETE_SHARE: Final = 0.3
"""The share of the selected tokens for complete results, in a prompt that will be repeated.

There, a few lines of many results are more useful than a few complete results.
"""

NO_CUT: Final = -1

Cut = tuple[int, list[int]]
"""A place up to which the last prompt may stay the same.

It is the position of an assistant message, and the results of the last prompt that this message and
earlier ones called.
"""


@dataclass(slots=True, frozen=True)
class Rebuild:
    """A rebuilt selection, and its cut.

    After a partial rebuild, `cut` is the position of an assistant message: up to the results of
    this message, the prompt is the same as the last one. After a full rebuild, it is `NO_CUT`.
    """

    builder: SelectionBuilder
    cut: int = NO_CUT


def rebuild_partially(
    context: CallContext,
    previous: Selection,
    full_rebuild: SelectionBuilder,
    scores: Scores,
    share: float,
) -> Rebuild | None:
    """Return the partial rebuild from the latest cut with which it is good enough, or None.

    A rebuild is good enough if the total worth of its results is nearly as high as in the full
    rebuild, and if it shows the newest and pinned results as completely. All results but the newest
    may use `share` of the budget for results. A cut whose results use more is not tried.
    """
    # Try the latest cuts first, because they keep most of the cached prompt.
    worth_of_results = worth_of(context)
    min_worth = (1 - MAX_LOSS) * _total_worth(full_rebuild, worth_of_results)
    cuts = _cuts(context, previous, share * max(0, full_rebuild.budget_for_results))
    for cut, results in cuts_to_try(cuts):
        builder = SelectionBuilder.from_previous(context, previous, results)
        # A result before the cut that was omitted stays omitted, because showing it would change
        # the part of the prompt that is cached. All other results may be selected.
        _exclude_results_before(cut, builder, first_new(context, previous))
        select_few(builder, scores, share)
        has_enough_worth = _total_worth(builder, worth_of_results) >= min_worth
        if has_enough_worth and _shows_required_results(builder, full_rebuild):
            return Rebuild(builder, cut)
    return None


def select_few(builder: SelectionBuilder, scores: Scores, share: float) -> None:
    """Select results within `share` of the budget for results.

    The rest of the budget is for results that later prompts append.
    """
    max_excerpt = max_new_excerpt(builder.context)
    select_results(
        builder, scores, share=share, max_excerpt=max_excerpt, complete_share=COMPLETE_SHARE
    )


def cuts_to_try(cuts: Iterable[Cut]) -> Iterator[Cut]:
    """Yield the first `EVERY_CUT` cuts, and then cuts at distances of 2, 4, 8 and so on.

    Of n cuts, at most `EVERY_CUT` + log2(n) are tried.
    """
    next_number, distance = 0, 1
    for number, cut in enumerate(cuts):
        if number == next_number:
            yield cut
            if number >= EVERY_CUT - 1:
                distance *= 2
            next_number += distance


def _cuts(context: CallContext, previous: Selection, token_limit: float) -> Iterator[Cut]:
    """Yield the cuts of the last prompt, the latest first, if their results fit `token_limit`.

    The newest results are always selected again, so no cut keeps them.
    """
    call_message, newest = context.history.results.call_message, {*context.newest}
    results = [r for r in results_before(context, previous) if r not in newest]
    results.sort(key=lambda r: (call_message[r], r))
    costs = [_cost(context, previous, result) for result in results]
    total_cost = sum(costs)
    while results:
        cut = call_message[results[-1]]
        if total_cost <= token_limit:
            yield cut, list(results)
        # The next cut is before the message with the calls of these results.
        while results and call_message[results[-1]] == cut:
            results.pop()
            total_cost -= costs.pop()


def _cost(context: CallContext, previous: Selection, result: int) -> int:
    """Return the tokens of a result and its call, as the previous prompt showed them."""
    arguments, excerpt = previous.arguments.get(result), previous.excerpts.get(result)
    call_tokens = arguments.tokens if arguments else int(context.call_tokens[result])
    return call_tokens + (excerpt.tokens if excerpt else int(context.sizes[result]))


def _exclude_results_before(cut: int, builder: SelectionBuilder, first_new_result: int) -> None:
    """Make the results unavailable whose calls are in messages up to `cut`.

    Results from number `first_new_result` on stay available, because no prompt showed them yet.
    """
    call_message = builder.context.history.results.call_message[:first_new_result]
    builder.available[:first_new_result] &= np.array(call_message, np.int64) > cut


def _total_worth(builder: SelectionBuilder, worth_of_results: Floats) -> float:
    """Return the sum of the selected results' worth."""
    complete_worth = worth_of_results[builder.complete].sum()
    excerpt_worth = worth_of_results[[*builder.fixed_excerpts, *builder.segments]].sum()
    return float(complete_worth + EXCERPT_WORTH * excerpt_worth)


def _shows_required_results(builder: SelectionBuilder, full_rebuild: SelectionBuilder) -> bool:
    """Return whether `builder` shows the newest and pinned results as completely as `full_rebuild`.

    A result that is complete there must be complete here. A result that is an excerpt there must be
    complete or an excerpt here.
    """
    required_results = {*builder.context.newest, *builder.context.pinned}
    complete = {*builder.complete}
    shown_results = complete | {*builder.fixed_excerpts}
    required_complete = required_results.intersection(full_rebuild.complete)
    required_excerpts = required_results.intersection(full_rebuild.fixed_excerpts)
    return required_complete <= complete and required_excerpts <= shown_results
