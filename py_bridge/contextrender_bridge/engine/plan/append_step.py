"""What a frozen rendering shows next: as it was, what is new, and what comes back behind that.

What comes back is needed again; in its own place it would change what a cache holds.
(docs/policies.md, contextrender_cache_aware and Back)
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import numpy as np

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.density import density_of
from contextrender_bridge.engine.plan.excerpt_text import back_mark, parts_of
from contextrender_bridge.engine.plan.excerpts import ExcerptBuilder
from contextrender_bridge.engine.plan.fill_selection import LEAST_EXCERPT, small_newcomer
from contextrender_bridge.engine.plan.selection import RestoredPart, RestoredText, Selection
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder

THRIFTY_FROM: Final = 2_000
"""Tokens above which a newcomer is complete only where there is much room."""

THRIFTY_SHARE: Final = 0.2
THRIFTY_LEAST: Final = 0.05


def append_step(moment: CallContext, last: Selection) -> SelectionBuilder | None:
    """Return the previous selection plus the new results, or None if they exceed the budget.

    A new result that is too large is shown as an excerpt.
    """
    choice = SelectionBuilder.repeated(moment, last, shown_before(moment, last))
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


def shown_before(moment: CallContext, last: Selection) -> list[int]:
    """The results of the last prompt; all there were while everything fitted."""
    if last.is_over:
        return [r for r in (*last.complete, *last.excerpts) if moment.asked[r]]
    return [r for r in range(first_new(moment, last)) if moment.asked[r]]


def first_new(moment: CallContext, last: Selection) -> int:
    """The first result that the last prompt could not have."""
    return bisect_left(moment.view.history.results.message, max(last.messages, 0))


def _is_large(choice: SelectionBuilder, result: int) -> bool:
    size = choice.moment.sizes[result]
    most = choice.moment.view.parameters.newest_share * choice.free
    if THRIFTY_FROM < size <= most and not _is_wanted(choice.moment, result):
        left = max(choice.left_over / 2, THRIFTY_LEAST * choice.free)
        most = min(THRIFTY_SHARE * choice.moment.view.budget, left)
    return bool(size > most)


def _is_wanted(moment: CallContext, result: int) -> bool:
    """Whether it is pinned, or the very same call gave about as much before and is made again."""
    return result in moment.pinned or bool(
        moment.tracking.previous_size.values[result] > moment.sizes[result] / 2
    )


def _show_large(choice: SelectionBuilder, large: list[int]) -> bool:
    """Appends excerpts, which share half of what their calls leave; False if that is too little."""
    calls = sum(choice.calls[result] for result in large)
    size = (choice.left_over - calls) / 2 / len(large)
    if size < LEAST_EXCERPT:
        return False
    size = min(size, small_newcomer(choice.moment.view))
    excerpting = ExcerptBuilder(choice, density_of(choice.moment))
    for result in large:
        excerpting.one(result, size + choice.calls[result])
        if choice.available[result]:
            if choice.costs[result] > choice.left_over:
                return False
            choice.take(result)
    return True


SHARE: Final = 0.04
"""The most of the budget that comes back with one call."""

MARK_TOKENS: Final = 26
LEAST_ROOM: Final = 60
"""Tokens under which nothing that says much comes back."""

RECENT: Final = 5
"""Turns within which a result was said something of that may come back."""


def bring_back(choice: SelectionBuilder, newcomers: Sequence[int]) -> None:
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
        choice.restore(max(newcomers), RestoredText(tuple(parts)))


def _parts(choice: SelectionBuilder, wanted: Sequence[int], room: float) -> list[RestoredPart]:
    """Return what is restored of each result; the most worth for its size comes first."""
    moment = choice.moment
    density, counter = density_of(moment), moment.view.counter
    excerpting, positions = ExcerptBuilder(choice, density), moment.view.history.results.message
    parts: list[RestoredPart] = []
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
            parts.append(RestoredPart(result, text, tokens, shown))
            room -= tokens
    return parts


def _wanted(choice: SelectionBuilder) -> list[int]:
    """Results not complete in view of which one of the last turns said something."""
    moment = choice.moment
    tracking = moment.tracking
    recent = moment.turn - tracking.last_use.values <= RECENT
    recent &= (tracking.uses.values > 0) & moment.asked
    recent[choice.complete] = False
    return [int(result) for result in np.flatnonzero(recent)]
