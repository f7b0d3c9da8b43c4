"""Complete results by recency, or by recency and meaning: the baselines that need no model."""

import numpy as np

from contextrender_bridge.engine.plan.policy_input import PolicyInput
from contextrender_bridge.engine.plan.selection import ScoreTable, Selection


def prune(view: PolicyInput) -> Selection:
    """Complete results from the newest backwards; what does not fit is skipped."""
    free = view.free
    taken: list[int] = []
    for result in range(len(view.costs) - 1, -1, -1):
        cost = int(view.costs[result])
        if view.eligible[result] and cost <= free:
            taken.append(result)
            free -= cost
    return Selection(len(view.history), view.retained, tuple(taken))


RECENT_TURNS = 3
RECENT_SHARE = 0.6


def semantic_retrieval(view: PolicyInput) -> Selection:
    """Complete results of the latest turns, newest first, up to a share of the budget.

    Then the others by cosine to the latest user and assistant messages, of equal ones the newer;
    what does not fit is skipped.
    """
    relevance = view.relevance_of(0.0)
    free = view.free
    count = len(view.costs)
    available = view.eligible.copy()
    taken: list[int] = []
    used = 0

    def take(order: list[int], limit: float) -> None:
        nonlocal used
        for result in order:
            if available[result] and used + view.costs[result] <= limit:
                taken.append(result)
                used += int(view.costs[result])
                available[result] = False

    recent = [r for r in range(count - 1, -1, -1) if view.ages[r] <= RECENT_TURNS]
    take(recent, min(free, RECENT_SHARE * view.budget))
    take(np.lexsort((-np.arange(count), -relevance)).tolist(), free)
    scores = ScoreTable(relevance, relevance, relevance)
    return Selection(len(view.history), view.retained, tuple(taken), scores=scores)
