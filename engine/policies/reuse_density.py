"""Complete results by reuse for their size (docs/policies.md, reuse_density)."""

from engine.choice import Choice
from engine.density import density_of
from engine.in_parts import take_newest
from engine.moment import present
from engine.rendering import Plan, View
from engine.selected import plan_of
from engine.text_cap import turns_to_leave


def reuse_density(view: View) -> Plan:
    """The newest turn's results first, then complete ones greedily by S."""
    moment = present(view)
    left = turns_to_leave(moment)
    choice, density = Choice(moment, left), density_of(moment)
    free = max(0, choice.free)
    take_newest(choice, view.parameters.newest_share * free, density)
    choice.take_greedily(density.scores, free)
    return plan_of(choice, density)
