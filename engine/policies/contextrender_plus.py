"""Complete results and excerpts within the budget (docs/policies.md, contextrender_plus)."""

from engine.density import density_of
from engine.in_parts import select_in_parts
from engine.moment import present
from engine.rendering import Plan, View
from engine.selected import plan_of
from engine.text_cap import turns_to_leave


def contextrender_plus(view: View) -> Plan:
    """The newest results, complete ones by S, and excerpts of what else is new."""
    moment = present(view)
    density = density_of(moment)
    return plan_of(select_in_parts(moment, turns_to_leave(moment), density), density)
