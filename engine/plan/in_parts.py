"""Selection of complete results and excerpts together (docs/policies.md, contextrender_plus)."""

from typing import Final

from engine.plan.choice import Choice
from engine.plan.density import Density
from engine.plan.excerpts import Excerpting
from engine.plan.newest import take_newest
from engine.plan.pinned import take_pinned

COMPLETE_SHARE: Final = 0.9


def select_in_parts(
    choice: Choice,
    density: Density,
    *,
    share: float | None = None,
    most: float,
    complete_share: float = COMPLETE_SHARE,
) -> Choice:
    """Newest results first, then pinned, complete ones by S, excerpts, and what still fits.

    With `share`, only that share of what is free is used beside the newest results. Excerpts of
    these have at most `most` tokens. Complete results have at most `complete_share` of
    what is used.
    """
    free, kept = max(0, choice.free), choice.used
    take_newest(choice, choice.moment.view.parameters.newest_share * free, density, most)
    newest = choice.used - kept
    take_pinned(choice, density)
    complete, limit = complete_share * free, float(free)
    if share is not None:
        complete = min(free, newest + complete_share * share * free)
        limit = min(free, newest + share * free)
    choice.take_greedily(density.order, complete)
    Excerpting(choice, density).fill_up(limit)
    choice.take_greedily(density.order, limit)
    return choice
