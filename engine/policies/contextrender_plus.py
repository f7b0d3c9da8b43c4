"""Complete results and excerpts within the budget (docs/policies.md, contextrender_plus)."""

from engine.plan.chosen_plan import plan_of
from engine.plan.density import density_of
from engine.plan.in_parts import select_in_parts
from engine.plan.moment import present
from engine.plan.plan import Plan
from engine.plan.text_cap import turns_to_leave
from engine.plan.view import View


def contextrender_plus(view: View) -> Plan:
    """The newest results, complete ones by S, and excerpts of what else is new."""
    moment = present(view)
    density = density_of(moment)
    return plan_of(select_in_parts(moment, turns_to_leave(moment), density), density)
