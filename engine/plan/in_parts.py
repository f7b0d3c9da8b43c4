"""Selection of complete results and excerpts together (docs/policies.md, contextrender_plus)."""

from typing import Final

from engine.plan.choice import Choice
from engine.plan.density import Density
from engine.plan.excerpts import Excerpting
from engine.plan.newest import take_newest
from engine.plan.pinned import take_pinned

COMPLETE_SHARE: Final = 0.9


def select_in_parts(
    choice: Choice, density: Density, *, share: float | None = None, most: float
) -> Choice:
    """Newest results first, then pinned, complete ones by S, excerpts, and what still fits.

    With `share`, only that share of what is free is used beside the newest results. Excerpts of
    these have at most `most` tokens.
    """
    free, kept = max(0, choice.free), choice.used
    take_newest(choice, choice.moment.view.parameters.newest_share * free, density, most)
    newest = choice.used - kept
    take_pinned(choice, density)
    complete, limit = COMPLETE_SHARE * free, float(free)
    if share is not None:
        complete = min(free, newest + COMPLETE_SHARE * share * free)
        limit = min(free, newest + share * free)
    choice.take_greedily(density.order, complete)
    Excerpting(choice, density).fill_up(limit)
    choice.take_greedily(density.order, limit)
    return choice
