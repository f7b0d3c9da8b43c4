"""The method's own policy, and its ablations by weights (`docs/method.md`, Selection)."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from engine.plan.plan import Plan, ScoreTable
from engine.plan.ranking import cosines_among, select_greedily, usefulness
from engine.plan.view import View


def contextrender(view: View) -> Plan:
    """Complete results greedily by observed reuse, recency and relevance, less redundancy.

    An oversized result of the last turn competes as a text of at most `view.replacement_limit`
    tokens; older ones are shown so, in the order of U, where the complete results leave room.
    """
    parameters = view.parameters
    weights = parameters.weight_recency, parameters.weight_reuse, parameters.weight_relevance
    ranks_by_vectors = parameters.weight_relevance or parameters.redundancy_penalty
    relevance = view.relevance if ranks_by_vectors else np.zeros(len(view.costs))
    useful = usefulness(
        view.ages,
        view.reuse,
        relevance,
        weights=weights,
        recency_decay=parameters.recency_decay,
        reuse_rate=parameters.reuse_rate,
    )
    # A copy: while anybody holds a view, a failed call say, the array could not grow.
    calls = np.array(view.history.results.call_tokens, dtype=np.int64)
    free = view.budget - view.retained.tokens
    costs = np.where(view.oversized, calls + view.replacement_limit, view.costs)
    replaceable = view.eligible & view.oversized & (view.replacement_limit > 0)
    competing = (view.eligible & ~view.oversized) | (replaceable & (view.ages == 1))
    costs = np.where(competing, costs, free + 1)
    vectors = view.vectors()

    similar = partial(cosines_among, vectors)
    greedy = select_greedily(useful, costs, free, similar, parameters.redundancy_penalty)
    oversized = view.oversized
    replaced = {r: view.replacement_limit for r in greedy.taken if oversized[r]}
    left_over = free - greedy.tokens
    older = np.flatnonzero(replaceable & (view.ages > 1))
    for result in sorted(map(int, older), key=lambda r: (-useful[r], r)):
        cost = view.replacement_limit + int(calls[result])
        if cost <= left_over:
            replaced[result] = view.replacement_limit
            left_over -= cost
    complete = [result for result in greedy.taken if not oversized[result]]
    order = [*greedy.taken, *(result for result in replaced if result not in greedy.taken)]
    scores = ScoreTable(relevance, useful, greedy.scores)
    return Plan(view.retained, complete, replaced, scores, order)


def weighted(recency: float, reuse: float, relevance: float) -> Callable[[View], Plan]:
    """The same policy with other weights: an ablation."""

    def ablation(view: View) -> Plan:
        parameters = replace(
            view.parameters,
            weight_recency=float(recency),
            weight_reuse=float(reuse),
            weight_relevance=float(relevance),
        )
        return contextrender(replace(view, parameters=parameters))

    return ablation
