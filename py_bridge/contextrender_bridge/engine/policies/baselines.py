"""The baselines that need no model: complete results by recency, or by recency and meaning."""

from collections.abc import Sequence

import numpy as np

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.selection import ScoreTable, Selection


def prune(context: CallContext) -> Selection:
    """Select complete results from the newest to the oldest, and skip those that do not fit."""
    remaining_tokens = context.budget_for_results
    selected: list[int] = []
    for result in range(len(context.costs) - 1, -1, -1):
        cost = int(context.costs[result])
        if context.eligible[result] and cost <= remaining_tokens:
            selected.append(result)
            remaining_tokens -= cost
    return Selection(context.message_count, context.retained_text, tuple(selected))


RECENT_TURNS = 3
RECENT_SHARE = 0.6
"""The share of the budget for the results of the last `RECENT_TURNS` turns."""


def semantic_retrieval(context: CallContext) -> Selection:
    """Select complete results of the latest turns, newest first, up to a share of the budget.

    Then select other results, those most similar to the latest user and assistant messages first
    (by cosine). Of equal cosines, the newer result comes first. Skip results that do not fit.
    """
    cosines = context.relevance_of(task_share=0.0)  # the query is the latest messages alone
    budget = context.budget_for_results
    count = len(context.costs)
    newest_first = range(count - 1, -1, -1)
    recent = [result for result in newest_first if context.ages[result] <= RECENT_TURNS]
    selected = _add_fitting(context, [], recent, min(budget, RECENT_SHARE * context.budget))
    best_first = np.lexsort((-np.arange(count), -cosines)).tolist()
    selected = _add_fitting(context, selected, best_first, budget)
    scores = ScoreTable(relevance=cosines, usefulness=cosines, score=cosines)
    return Selection(context.message_count, context.retained_text, tuple(selected), scores=scores)


def _add_fitting(
    context: CallContext, selected: list[int], order: Sequence[int], limit: float
) -> list[int]:
    """Return the selected results and further results, added in `order` if they fit.

    All returned results together have at most `limit` tokens, unless `selected` has more already.
    """
    available = context.eligible.copy()
    available[selected] = False
    tokens = sum(int(context.costs[result]) for result in selected)
    added: list[int] = []
    for result in order:
        if available[result] and tokens + context.costs[result] <= limit:
            added.append(result)
            tokens += int(context.costs[result])
    return [*selected, *added]
