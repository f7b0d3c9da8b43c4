"""Results that a caller wants kept, ahead of all but the newest (docs/policies.md, Pins)."""

from typing import Final

from engine.plan.choice import Choice
from engine.plan.density import Density
from engine.plan.excerpts import Excerpting
from engine.plan.newest import LEAST_EXCERPT, LEAST_SHOWN, opening_of

PINNED_SHARE: Final = 0.5
"""The share of what text leaves free that pinned results may take."""


def take_pinned(choice: Choice, density: Density) -> None:
    """Pinned results, the newest first: complete while their share lasts, then excerpts in it.

    Pinned results that are in the choice already count towards the share.
    """
    pinned = choice.moment.pinned
    room = PINNED_SHARE * max(0, choice.free) - _taken(choice, pinned)
    waiting = [result for result in reversed(pinned) if choice.available[result]]
    others: list[int] = []
    for result in waiting:
        if choice.costs[result] <= min(room, choice.left_over):
            room -= choice.costs[result]
            choice.take(result)
        else:
            others.append(result)
    if others:
        _show_in_part(choice, others, min(room, choice.left_over), density)


def _show_in_part(choice: Choice, results: list[int], room: float, density: Density) -> None:
    """Excerpts that share the room, of at least `LEAST_EXCERPT` each while it lasts."""
    excerpting = Excerpting(choice, density)
    for number, result in enumerate(results):
        call = choice.calls[result]
        share = max(LEAST_EXCERPT, room / (len(results) - number) - call)
        size = min(share, room - call)
        if size < LEAST_SHOWN:
            continue
        before = choice.used
        excerpting.one(result, size + call)
        if choice.available[result] and (opening := opening_of(choice.moment, result, int(size))):
            choice.keep(result, opening)
        room -= choice.used - before


def _taken(choice: Choice, pinned: list[int]) -> int:
    calls, costs = choice.calls, choice.costs
    complete = {*choice.complete}
    newest = {*choice.moment.newest}
    return sum(
        costs[r] if r in complete else calls[r] + choice.kept[r].tokens
        for r in pinned
        if r not in newest and (r in complete or r in choice.kept)
    )
