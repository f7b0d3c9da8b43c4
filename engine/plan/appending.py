"""What a frozen rendering shows next: as it was, and what is new (docs/policies.md)."""

from bisect import bisect_left
from typing import Final

from engine.history.frozen import Frozen
from engine.plan.choice import Choice
from engine.plan.density import density_of
from engine.plan.excerpts import Excerpting
from engine.plan.moment import Moment
from engine.plan.newest import LEAST_EXCERPT, small_newcomer
from engine.plan.returning import bring_back

THRIFTY_FROM: Final = 2_000
"""Tokens above which a newcomer is complete only where there is much room."""

THRIFTY_SHARE: Final = 0.25
THRIFTY_LEAST: Final = 0.05


def appended(moment: Moment, last: Frozen) -> Choice | None:
    """The last rendering and what is new since; None if that exceeds the budget.

    A newcomer that is too large is an excerpt.
    """
    choice = Choice.repeated(moment, last, shown_before(moment, last))
    new = range(first_new(moment, last), moment.results)
    newcomers = [result for result in new if choice.available[result]]
    large = [result for result in newcomers if _is_large(choice, result)]
    for result in newcomers:
        if result not in large:
            choice.take(result)
    if choice.left_over < 0 or not (not large or _show_large(choice, large)):
        return None
    bring_back(choice, [result for result in newcomers if result in choice.complete])
    return choice


def shown_before(moment: Moment, last: Frozen) -> list[int]:
    """The results of the last prompt; all there were while everything fitted."""
    if last.over:
        return [*last.complete, *last.excerpts]
    return [r for r in range(first_new(moment, last)) if moment.asked[r]]


def first_new(moment: Moment, last: Frozen) -> int:
    """The first result that the last prompt could not have."""
    return bisect_left(moment.view.history.results.message, max(last.messages, 0))


def _is_large(choice: Choice, result: int) -> bool:
    size = choice.moment.sizes[result]
    most = choice.moment.view.parameters.newest_share * choice.free
    if THRIFTY_FROM < size <= most and not _is_wanted(choice.moment, result):
        left = max(choice.left_over / 2, THRIFTY_LEAST * choice.free)
        most = min(THRIFTY_SHARE * choice.moment.view.budget, left)
    return bool(size > most)


def _is_wanted(moment: Moment, result: int) -> bool:
    """Whether it is pinned, or the very same call gave about as much before and is made again."""
    return result in moment.pinned or bool(
        moment.tracking.answered.values[result] > moment.sizes[result] / 2
    )


def _show_large(choice: Choice, large: list[int]) -> bool:
    """Appends excerpts, which share half of what their calls leave; False if that is too little."""
    calls = sum(choice.calls[result] for result in large)
    size = (choice.left_over - calls) / 2 / len(large)
    if size < LEAST_EXCERPT:
        return False
    size = min(size, small_newcomer(choice.moment.view))
    excerpting = Excerpting(choice, density_of(choice.moment))
    for result in large:
        excerpting.one(result, size + choice.calls[result])
        if choice.available[result]:
            if choice.costs[result] > choice.left_over:
                return False
            choice.take(result)
    return True
