"""A choice filled: the newest turn's results, then pinned ones, then complete ones and excerpts.

What must be in view is complete, else in part, else at least its beginning (docs/policies.md).
"""

from collections.abc import Sequence
from typing import Final

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.density import Density
from contextrender_bridge.engine.plan.excerpt_text import GAP, mark
from contextrender_bridge.engine.plan.excerpts import ExcerptBuilder
from contextrender_bridge.engine.plan.policy_input import PolicyInput
from contextrender_bridge.engine.plan.selection import Substitute
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder
from contextrender_bridge.engine.plan.truncated_calls import cut_call
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD, call_parts

LEAST_EXCERPT: Final = 200
"""Tokens under which an excerpt is not worth it where there is a choice."""

LEAST_SHOWN: Final = 60
"""Tokens set aside for each result that must be in view and has not had its turn."""

SMALL_SHARE: Final = 1 / 8
SMALL_NEWCOMER_SHARE: Final = 1 / 14


def small_excerpt(view: PolicyInput) -> float:
    """The most tokens an excerpt has, its call not counted, where what is appended must stay."""
    return max(LEAST_EXCERPT, SMALL_SHARE * view.budget)


def small_newcomer(view: PolicyInput) -> float:
    """The same where prompts are repeated, and each excerpt is paid for again and again."""
    return max(LEAST_EXCERPT, SMALL_NEWCOMER_SHARE * view.budget)


def take_newest(choice: SelectionBuilder, room: float, density: Density, most: float) -> None:
    """The newest turn's results, the smallest first, while they fit `room` complete.

    The others are excerpts of at most `most` tokens beside their calls. With a `newest_share` of 0
    they have to compete.
    """
    if not choice.moment.view.parameters.newest_share:
        return
    waiting = [r for r in choice.moment.newest if choice.available[r]]
    others: list[int] = []
    for result in sorted(waiting, key=lambda r: (choice.costs[r], r)):
        if choice.costs[result] <= min(room, choice.left_over):
            room -= choice.costs[result]
            choice.take(result)
        else:
            others.append(result)
    if others:
        show_in_part(choice, others, room, density, most)


def show_in_part(
    choice: SelectionBuilder, results: Sequence[int], room: float, density: Density, most: float
) -> None:
    """An excerpt of each, which share evenly what their calls leave of `room`.

    Where that is too little: complete if it fits what is free, else shortened as far as it must be.
    """
    excerpting = ExcerptBuilder(choice, density)
    for index, result in enumerate(results):
        rest = results[index:]
        set_aside = sum(min(choice.costs[r], LEAST_SHOWN) for r in rest[1:])
        within = choice.left_over - set_aside
        share = (room - sum(choice.calls[r] for r in rest)) / len(rest)
        if share < LEAST_SHOWN:
            share = LEAST_EXCERPT
        before = choice.used
        size = min(share, most, within)
        excerpting.one(result, size + choice.calls[result])
        if choice.available[result]:
            _show_somehow(choice, result, within)
        room -= choice.used - before


def _show_somehow(choice: SelectionBuilder, result: int, within: int) -> None:
    """Complete within that many tokens, else the call shortened and the result's first line."""
    if choice.costs[result] <= within:
        choice.take(result)
        return
    opening = None
    most = int(small_excerpt(choice.moment.view))
    size = int(choice.moment.sizes[result])
    if size > within // 2:
        opening = opening_of(choice.moment, result, min(within // 2, most))
        if opening is None:
            return
        size = opening.tokens
    if choice.calls[result] + size > within:
        made = _shortened_call(choice.moment, result, min(within - size, max(most, size)))
        if made is None:
            return
        choice.cut_call(result, made)
    if opening is None:
        choice.take(result)
    else:
        choice.keep(result, opening)


def opening_of(moment: CallContext, result: int, limit: int) -> Substitute | None:
    """A result's first line, marked, in at most `limit` tokens; None where no word fits."""
    view = moment.view
    position, size = view.history.results.message[result], int(moment.sizes[result])
    text = view.text_of(position)
    start = len(text) - len(text.lstrip())
    line = text[start:].partition("\n")[0]
    for before in (mark(position, size, size), ""):
        room = limit - MESSAGE_OVERHEAD - view.counter.text(before + GAP)
        if room > 0:
            line = view.counter.cut(line, room)
            left_out = max(1, size - MESSAGE_OVERHEAD - view.counter.text(line))
            shown = (before and mark(position, size, left_out)) + line + GAP
            ranges = (start, len(line))
            return Substitute(shown, view.counter.text(shown) + MESSAGE_OVERHEAD, ranges=ranges)
    return None


def _shortened_call(moment: CallContext, result: int, limit: int) -> Substitute | None:
    view = moment.view
    message, number = view.history.call_of(result)
    call = view.originals(message, message + 1)[0]["tool_calls"][number]
    return cut_call(*call_parts(call), limit, view.counter)


PINNED_SHARE: Final = 0.5
"""The share of what text leaves free that pinned results may take."""


def take_pinned(choice: SelectionBuilder, density: Density) -> None:
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


def _show_in_part(
    choice: SelectionBuilder, results: list[int], room: float, density: Density
) -> None:
    """Excerpts that share the room, of at least `LEAST_EXCERPT` each while it lasts."""
    excerpting = ExcerptBuilder(choice, density)
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


def _taken(choice: SelectionBuilder, pinned: list[int]) -> int:
    calls, costs = choice.calls, choice.costs
    complete = {*choice.complete}
    newest = {*choice.moment.newest}
    return sum(
        costs[r] if r in complete else calls[r] + choice.kept[r].tokens
        for r in pinned
        if r not in newest and (r in complete or r in choice.kept)
    )


COMPLETE_SHARE: Final = 0.9


def select_in_parts(
    choice: SelectionBuilder,
    density: Density,
    *,
    share: float | None = None,
    most: float,
    complete_share: float = COMPLETE_SHARE,
) -> SelectionBuilder:
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
    ExcerptBuilder(choice, density).fill_up(limit)
    choice.take_greedily(density.order, limit)
    return choice
