"""The baselines that need no model: complete results by recency, or by recency and meaning."""

from collections.abc import Sequence

import numpy as np

from contextrender_bridge.engine.plan.policy_input import PolicyInput
from contextrender_bridge.engine.plan.selection import ScoreTable, Selection


def prune(view: PolicyInput) -> Selection:
    """Select complete results from the newest to the oldest, and skip those that do not fit."""
    remaining_tokens = view.budget_for_results
    selected: list[int] = []
    for result in range(len(view.costs) - 1, -1, -1):
        cost = int(view.costs[result])
        if view.eligible[result] and cost <= remaining_tokens:
            selected.append(result)
            remaining_tokens -= cost
    return Selection(view.message_count, view.retained_text, tuple(selected))


RECENT_TURNS = 3
RECENT_SHARE = 0.6
"""The share of the budget for the results of the last `RECENT_TURNS` turns."""


def semantic_retrieval(view: PolicyInput) -> Selection:
    """Select complete results of the latest turns, newest first, up to a share of the budget.

    Then select other results, those most similar to the latest user and assistant messages first
    (by cosine). Of equal cosines, the newer result comes first. Skip results that do not fit.
    """
    cosines = view.relevance_of(task_share=0.0)  # the query is the latest messages alone
    budget = view.budget_for_results
    count = len(view.costs)
    newest_first = range(count - 1, -1, -1)
    recent = [result for result in newest_first if view.ages[result] <= RECENT_TURNS]
    selected = _add_fitting(view, [], recent, min(budget, RECENT_SHARE * view.budget))
    best_first = np.lexsort((-np.arange(count), -cosines)).tolist()
    selected = _add_fitting(view, selected, best_first, budget)
    scores = ScoreTable(relevance=cosines, usefulness=cosines, score=cosines)
    return Selection(view.message_count, view.retained_text, tuple(selected), scores=scores)


def _add_fitting(
    view: PolicyInput, selected: list[int], order: Sequence[int], limit: float
) -> list[int]:
    """Return the selected results and further results, added in `order` if they fit.

    All returned results together have at most `limit` tokens, unless `selected` has more already.
    """
    available = view.eligible.copy()
    available[selected] = False
    tokens = sum(int(view.costs[result]) for result in selected)
    added: list[int] = []
    for result in order:
        if available[result] and tokens + view.costs[result] <= limit:
            added.append(result)
            tokens += int(view.costs[result])
    return [*selected, *added]
