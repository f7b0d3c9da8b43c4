"""The recency baseline: complete results, newest first, that fit."""

from engine.plan.plan import Plan
from engine.plan.view import View


def prune(view: View) -> Plan:
    """Complete results from the newest backwards; what does not fit is skipped."""
    free = view.budget - view.retained.tokens
    taken: list[int] = []
    for result in range(len(view.costs) - 1, -1, -1):
        cost = int(view.costs[result])
        if view.eligible[result] and cost <= free:
            taken.append(result)
            free -= cost
    return Plan(view.retained, taken)
