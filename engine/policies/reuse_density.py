"""Complete results by reuse for their size (docs/policies.md, reuse_density)."""

import math

from engine.plan.choice import Choice
from engine.plan.chosen_plan import plan_of
from engine.plan.density import density_of
from engine.plan.moment import present
from engine.plan.newest import take_newest
from engine.plan.pinned import take_pinned
from engine.plan.plan import Plan
from engine.plan.text_cap import text_at
from engine.plan.view import View


def reuse_density(view: View) -> Plan:
    """The newest turn's results first, then pinned ones, then complete ones greedily by S."""
    moment = present(view)
    choice, density = Choice(moment, text_at(moment)), density_of(moment)
    free = max(0, choice.free)
    take_newest(choice, view.parameters.newest_share * free, density, math.inf)
    take_pinned(choice, density)
    choice.take_greedily(density.order, free)
    return plan_of(choice, density)
