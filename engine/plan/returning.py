"""What is needed again comes back behind the newest complete result (docs/policies.md, Back).

In its own place it would change what a cache holds.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from engine.history.frozen import Added
from engine.plan.choice import Choice
from engine.plan.density import density_of
from engine.plan.excerpts import Excerpting
from engine.plan.marking import back_mark, parts_of

SHARE: Final = 0.04
"""The most of the budget that comes back with one call."""

MARK_TOKENS: Final = 26
LEAST_ROOM: Final = 60
"""Tokens under which nothing that says much comes back."""

RECENT: Final = 5
"""Turns within which a result was said something of that may come back."""


def bring_back(choice: Choice, newcomers: Sequence[int]) -> None:
    """Adds behind the last of these complete results what was used of late and is not in view."""
    moment = choice.moment
    room = min(SHARE * moment.view.budget, choice.left_over)
    if not newcomers or room < LEAST_ROOM:
        return
    wanted = _wanted(choice)
    if not wanted:
        return
    parts = _parts(choice, wanted, room)
    if parts:
        texts, tokens, shown = zip(*parts.values(), strict=True)
        made = Added("".join(texts), sum(tokens), tuple(parts), shown)
        choice.add_behind(max(newcomers), made)


def _parts(
    choice: Choice, wanted: Sequence[int], room: float
) -> dict[int, tuple[str, int, tuple[int, ...]]]:
    """By result what comes back of it, its tokens, and which characters of the result it has.

    The most worth for its size comes first.
    """
    moment = choice.moment
    density, counter = density_of(moment), moment.view.counter
    excerpting, positions = Excerpting(choice, density), moment.view.history.results.message
    parts: dict[int, tuple[str, int, tuple[int, ...]]] = {}
    for result in sorted(wanted, key=lambda result: (-density.scores[result], result)):
        first, stop = moment.tracking.first_segment.values[result : result + 2].tolist()
        segments = excerpting.again(result, room - MARK_TOKENS)
        if not segments:
            continue
        mark = back_mark(positions[result], whole=len(segments) == stop - first)
        body, shown = parts_of(moment, result, segments)
        text = f"\n\n{mark}{body}"
        tokens = counter.text(text)
        if tokens <= room:
            parts[result] = text, tokens, shown
            room -= tokens
    return parts


def _wanted(choice: Choice) -> list[int]:
    """Results not complete in view of which one of the last turns said something."""
    moment = choice.moment
    tracking = moment.tracking
    recent = moment.turn - tracking.last_use.values <= RECENT
    recent &= (tracking.uses.values > 0) & moment.asked
    recent[choice.complete] = False
    return [int(result) for result in np.flatnonzero(recent)]
