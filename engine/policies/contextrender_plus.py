"""Complete results and excerpts within the budget (docs/policies.md, contextrender_plus)."""

import math

from engine.plan.choice import Choice
from engine.plan.chosen_plan import plan_of
from engine.plan.density import density_of
from engine.plan.in_parts import select_in_parts
from engine.plan.moment import present
from engine.plan.plan import Plan
from engine.plan.text_cap import text_at
from engine.plan.view import View


def contextrender_plus(view: View) -> Plan:
    """The newest results, complete ones by S, and excerpts of what else is new."""
    moment = present(view)
    density = density_of(moment)
    choice = Choice(moment, text_at(moment))
    return plan_of(select_in_parts(choice, density, most=math.inf), density)
