"""The policies by name: each makes a `Selection` of a `PolicyInput`.

A new policy is a file and a line of the table here.

The method's own policy and its ablations by weights stand here (`docs/method.md`, Selection).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.engine.parameters import Parameters
from contextrender_bridge.engine.plan.call_context import present
from contextrender_bridge.engine.plan.pin_newest import with_newest
from contextrender_bridge.engine.plan.policy_input import PolicyInput, everything
from contextrender_bridge.engine.plan.ranking import cosines_among, select_greedily
from contextrender_bridge.engine.plan.selection import ScoreTable, Selection
from contextrender_bridge.engine.policies.baselines import prune, semantic_retrieval
from contextrender_bridge.engine.policies.by_density import contextrender_excerpts, reuse_density
from contextrender_bridge.engine.policies.contextrender_cache_aware import contextrender_cache_aware
from contextrender_bridge.engine.policies.summarising import acon, compact, recency_summary


def contextrender(view: PolicyInput) -> Selection:
    """Complete results greedily by observed reuse, recency and relevance, less redundancy.

    An oversized result of the last turn competes as a text of at most `view.replacement_limit`
    tokens; older ones are shown so, in the order of U, where the complete results leave room.
    """
    parameters = view.parameters
    ranks_by_vectors = parameters.weight_relevance or parameters.redundancy_penalty
    relevance = view.relevance if ranks_by_vectors else np.zeros(len(view.costs))
    useful = view.usefulness(relevance)
    # A copy: while anybody holds a view, a failed call say, the array could not grow.
    calls = np.array(view.history.results.call_tokens, dtype=np.int64)
    free = view.free
    limit, oversized = view.replacement_limit, view.oversized
    costs = np.where(oversized, calls + limit, view.costs)
    replaceable = view.eligible & oversized & (limit > 0)
    competing = (view.eligible & ~oversized) | (replaceable & (view.ages == 1))
    costs = np.where(competing, costs, free + 1)
    vectors = view.vectors()

    similar = partial(cosines_among, vectors)
    greedy = select_greedily(useful, costs, free, similar, parameters.redundancy_penalty)
    replaced = {r: limit for r in greedy.taken if oversized[r]}
    left_over = free - greedy.tokens
    older = np.flatnonzero(replaceable & (view.ages > 1))
    for result in sorted(map(int, older), key=lambda r: (-useful[r], r)):
        cost = limit + int(calls[result])
        if cost <= left_over:
            replaced[result] = limit
            left_over -= cost
    complete = [result for result in greedy.taken if not oversized[result]]
    order = [*greedy.taken, *(result for result in replaced if result not in greedy.taken)]
    scores = ScoreTable(relevance, useful, greedy.scores)
    return Selection(
        len(view.history),
        view.retained,
        tuple(complete),
        limits=replaced,
        scores=scores,
        order=tuple(order),
    )


def weighted(recency: float, reuse: float, relevance: float) -> Callable[[PolicyInput], Selection]:
    """Return the method's policy with other weights: an ablation."""

    def ablation(view: PolicyInput) -> Selection:
        parameters = replace(
            view.parameters,
            weight_recency=float(recency),
            weight_reuse=float(reuse),
            weight_relevance=float(relevance),
        )
        return contextrender(replace(view, parameters=parameters))

    return ablation


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to select what a prompt shows.

    `choose` makes the selection. A policy that `tracks` ranks by the texts it has tracked
    (`engine.plan.call_context`): it reads every text of a history before it renders it, and makes
    room for pinned results itself. For one that `sizes_itself` a budget is a most, within which
    each call's finds itself. One that `needs_model` shows texts that a model writes.
    """

    choose: Callable[[PolicyInput], Selection]
    tracks: bool = False
    sizes_itself: bool = False
    needs_model: bool = False

    @property
    def reads_reuse(self) -> bool:
        """Whether it can only render a history whose reuse is traced."""
        return not self.sizes_itself


DEFAULT_POLICY = "contextrender"

FULL: Final = Policy(everything)

POLICIES: Mapping[str, Policy] = {
    "contextrender": Policy(contextrender),
    "recency": Policy(weighted(1, 0, 0)),
    "reuse": Policy(weighted(0, 1, 0)),
    "relevance": Policy(weighted(0, 0, 1)),
    "recency_relevance": Policy(weighted(1, 0, 1)),
    "prune": Policy(prune),
    "full": FULL,
    "semantic_retrieval": Policy(semantic_retrieval),
    "reuse_density": Policy(reuse_density, tracks=True),
    "contextrender_excerpts": Policy(contextrender_excerpts, tracks=True),
    "contextrender_cache_aware": Policy(contextrender_cache_aware, tracks=True, sizes_itself=True),
    "compact": Policy(compact, needs_model=True),
    "recency_summary": Policy(recency_summary, needs_model=True),
    "acon": Policy(acon, needs_model=True),
}


def policy_named(name: str) -> Policy:
    """Return the policy of that name. Raises InvalidRequest naming those there are."""
    if name not in POLICIES:
        raise InvalidRequest(f"no policy {name!r:.40}; there are {', '.join(POLICIES)}")
    return POLICIES[name]


def selection_for(view: PolicyInput, policy: Policy, agent_defaults: bool = False) -> Selection:
    """Return the policy's selection, or everything when the whole history is within the budget.

    What is pinned is in it under any policy, and with `agent_defaults` the newest results.
    """
    if policy is FULL or (view.fits and not policy.sizes_itself):
        return everything(view)
    selection, pinned = policy.choose(view), not policy.tracks and bool(view.pins)
    if not (agent_defaults or pinned):
        return selection
    moment = present(view)
    summaries = {result for result, made in selection.excerpts.items() if made.kind == "summary"}
    hidden = agent_defaults and not {*moment.newest} <= selection.shown - summaries
    unpinned = pinned and not {*moment.pinned} <= {*selection.complete}
    return with_newest(moment, selection, hidden=hidden) if hidden or unpinned else selection


__all__ = [
    "DEFAULT_POLICY",
    "POLICIES",
    "Parameters",
    "Policy",
    "policy_named",
    "selection_for",
]
