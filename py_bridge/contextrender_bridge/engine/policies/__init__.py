"""The policies by name. Each returns a `Selection` for a `CallContext`.

To add a policy, write a file and add a line to the table `POLICIES`.

The method's own policy and its ablations by weights are defined here (`docs/method.md`, Selection).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.engine.parameters import NO_PINS, Parameters
from contextrender_bridge.engine.plan.call_context import CallContext, select_all
from contextrender_bridge.engine.plan.pin_newest import with_required_results
from contextrender_bridge.engine.plan.ranking import cosines_among, select_greedily
from contextrender_bridge.engine.plan.selection import ScoreTable, Selection
from contextrender_bridge.engine.policies.baselines import prune, semantic_retrieval
from contextrender_bridge.engine.policies.by_density import contextrender_excerpts, reuse_density
from contextrender_bridge.engine.policies.contextrender_cache_aware import contextrender_cache_aware

SMALLEST_SUBSTITUTE: Final = 100
"""The tokens that an oversized result's substitute may always have (docs/method.md)."""


def contextrender(context: CallContext) -> Selection:
    """Select results by the method's rules (docs/method.md, Selection and Oversized results).

    Select complete results greedily, by their usefulness less their redundancy. A result that
    exceeds the budget (oversized) is selected as a substitute. The returned selection has only the
    size limits of substitutes, because their texts are written later.
    """
    # Computing the relevance embeds texts, so do it only if relevance or redundancy counts.
    parameters = context.parameters
    uses_vectors = parameters.weight_relevance or parameters.redundancy_penalty
    relevance = context.relevance_of() if uses_vectors else np.zeros(len(context.costs))
    usefulness = context.usefulness(relevance)
    call_tokens, budget = context.call_tokens, context.budget_for_results

    # Select complete results. Oversized results of the last turn compete with them, at the cost of
    # a substitute. Older oversized results only get the tokens that remain (docs/method.md).
    share, is_oversized = parameters.oversized_share, context.costs > context.budget
    limit = max(SMALLEST_SUBSTITUTE, int(context.budget * share)) if share else 0
    may_be_substituted = context.eligible & is_oversized & (limit > 0)
    may_be_complete = context.eligible & ~is_oversized
    is_candidate = may_be_complete | (may_be_substituted & (context.ages == 1))
    costs = np.where(is_oversized, call_tokens + limit, context.costs)
    costs = np.where(is_candidate, costs, budget + 1)  # so that others never fit
    # The history has the vectors that exist by now. No further texts are embedded.
    cosines_to = partial(cosines_among, context.history.vectors.matrix(len(costs)))
    greedy = select_greedily(usefulness, costs, budget, cosines_to, parameters.redundancy_penalty)
    complete = [result for result in greedy.selected if not is_oversized[result]]
    substituted = [result for result in greedy.selected if is_oversized[result]]

    # Then select older oversized results with the remaining tokens, the most useful first.
    remaining_tokens = budget - greedy.tokens
    older = np.flatnonzero(may_be_substituted & (context.ages > 1)).tolist()
    for result in sorted(older, key=lambda r: (-usefulness[r], r)):
        cost = limit + int(call_tokens[result])
        if cost <= remaining_tokens:
            substituted.append(result)
            remaining_tokens -= cost
    return Selection(
        context.message_count,
        context.retained_text,
        tuple(complete),
        limits=dict.fromkeys(substituted, limit),
        scores=ScoreTable(relevance, usefulness, greedy.scores),
        order=tuple(dict.fromkeys([*greedy.selected, *substituted])),
    )


def with_weights(
    *, recency: float = 0, reuse: float = 0, relevance: float = 0
) -> Callable[[CallContext], Selection]:
    """Return a variant of the method's policy that ignores the parameters' weights.

    It has these weights instead. Evaluations compare it with the method's policy.
    """

    def select(context: CallContext) -> Selection:
        """Return the selection that the method's policy makes with these weights."""
        parameters = replace(
            context.parameters,
            weight_recency=float(recency),
            weight_reuse=float(reuse),
            weight_relevance=float(relevance),
        )
        return contextrender(replace(context, parameters=parameters))

    return select


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to select what a prompt shows.

    `choose` returns the selection. If `tracks_tokens` is true, the policy ranks results by tracked
    tokens. It then reads every text of a history, and selects pinned results itself. If
    `is_cache_aware` is true, the policy continues the previous prompt, and adjusts the budget of
    each call within an upper limit. All other policies read the reuse of results, so reuse must be
    traced before.
    """

    choose: Callable[[CallContext], Selection]
    tracks_tokens: bool = False
    is_cache_aware: bool = False


DEFAULT_POLICY = "contextrender"

FULL: Final = Policy(select_all)

POLICIES: Mapping[str, Policy] = {
    "contextrender": Policy(contextrender),
    "recency": Policy(with_weights(recency=1)),
    "reuse": Policy(with_weights(reuse=1)),
    "relevance": Policy(with_weights(relevance=1)),
    "recency_relevance": Policy(with_weights(recency=1, relevance=1)),
    "prune": Policy(prune),
    "full": FULL,
    "semantic_retrieval": Policy(semantic_retrieval),
    "reuse_density": Policy(reuse_density, tracks_tokens=True),
    "contextrender_excerpts": Policy(contextrender_excerpts, tracks_tokens=True),
    "contextrender_cache_aware": Policy(
        contextrender_cache_aware, tracks_tokens=True, is_cache_aware=True
    ),
}


def policy_named(name: str) -> Policy:
    """Return the policy of that name. If there is none, raise InvalidRequest with all names."""
    if name not in POLICIES:
        raise InvalidRequest(
            f"no policy {name!r:.40}; there are {', '.join(POLICIES)}; "
            "compact, recency_summary, acon are baselines of `contextrender eval`"
        )
    return POLICIES[name]


def selection_for(context: CallContext, policy: Policy, agent_defaults: bool = False) -> Selection:
    """Return the policy's selection, or every result if the full history is within the budget.

    If the selection lacks pinned results, or the newest results with `agent_defaults`, select these
    first, and then the policy's results that still fit.
    """
    # A cache-aware policy decides by itself whether everything is shown.
    if policy is FULL or (context.fits and not policy.is_cache_aware):
        return select_all(context)
    selection = policy.choose(context)
    # A policy that tracks tokens selects pinned results itself.
    must_show_pins = context.pins != NO_PINS and not policy.tracks_tokens
    if not (agent_defaults or must_show_pins):
        return selection
    lacks_newest = agent_defaults and not selection.shown_results.issuperset(context.newest)
    lacks_pins = must_show_pins and not {*selection.complete}.issuperset(context.pinned)
    if not (lacks_newest or lacks_pins):
        return selection
    return with_required_results(context, selection, force_newest=lacks_newest)


__all__ = [
    "DEFAULT_POLICY",
    "POLICIES",
    "Parameters",
    "Policy",
    "policy_named",
    "selection_for",
]
