"""Selection of complete results and excerpts together (docs/policies.md, contextrender_plus)."""

from typing import Final

from engine.plan.choice import Choice
from engine.plan.density import Density
from engine.plan.excerpts import Excerpting
from engine.plan.moment import Moment

COMPLETE_SHARE: Final = 0.9


def take_newest(choice: Choice, room: float, density: Density) -> None:
    """The newest turn's results, the smallest first, while they fit `room` complete.

    The others share evenly, as excerpts, what is then left of it.
    """
    start = choice.used
    others: list[int] = []
    for result in sorted(choice.moment.newest, key=lambda r: (choice.costs[r], r)):
        if choice.used - start + choice.costs[result] <= room:
            choice.take(result)
        else:
            others.append(result)
    if not others or room <= 0:
        return
    excerpting = Excerpting(choice, density)
    for index, result in enumerate(others):
        left_over = room - (choice.used - start)
        excerpting.one(result, left_over / (len(others) - index))


def select_in_parts(
    moment: Moment, left: tuple[int, ...], density: Density, share: float | None = None
) -> Choice:
    """Newest results first, then complete ones by S, then excerpts, then what still fits.

    With `share`, only that share of what is free is used beside the newest results.
    """
    choice = Choice(moment, left)
    free = max(0, choice.free)
    take_newest(choice, moment.view.parameters.newest_share * free, density)
    complete, limit = COMPLETE_SHARE * free, float(free)
    if share is not None:
        complete = min(free, choice.used + COMPLETE_SHARE * share * free)
        limit = min(free, choice.used + share * free)
    choice.take_greedily(density.scores, complete)
    Excerpting(choice, density).fill_up(limit)
    choice.take_greedily(density.scores, limit)
    return choice
