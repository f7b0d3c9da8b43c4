"""The last rendering repeated and appended to (docs/policies.md, contextrender_cache_aware).

Providers that cache up to marked places read again only what was marked before: `breakpoints`.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from contextrender_bridge.engine.plan.append_step import appended
from contextrender_bridge.engine.plan.auto_budget import sized
from contextrender_bridge.engine.plan.call_context import CallContext, present, tracker
from contextrender_bridge.engine.plan.call_text import sizes_of, text_at
from contextrender_bridge.engine.plan.density import density_of
from contextrender_bridge.engine.plan.partial_rebuild import (
    PartialRebuild,
    select_few,
    selected_late,
)
from contextrender_bridge.engine.plan.policy_input import PolicyInput, everything
from contextrender_bridge.engine.plan.selection import NOTHING_SHOWN, Selection, Substitute
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder
from contextrender_bridge.engine.plan.show_newest import show_newest
from contextrender_bridge.engine.policies.by_density import IN_PART

SELECT_EVERY: Final = 128
"""Invocations after which all is selected anew in any case."""

COMPLETE_ONCE: Final = "complete in this call, an excerpt from the next one on"


def contextrender_cache_aware(view: PolicyInput) -> Selection:
    """Return the last answered call's selection and what is new, within the call's own budget.

    It is rebuilt when that exceeds the budget. Without a last call it goes on from a prompt of
    everything.
    """
    last = follow(view) if view.follows else view.previous
    selection = step(present(view), last or NOTHING_SHOWN)
    if not selection.is_over:
        return replace(everything(view), budget=selection.budget)
    return replace(selection, reasons=_reasons(view, selection))


def step(moment: CallContext, last: Selection) -> Selection:
    """Return what a call shows that goes on from the selection of the call before."""
    budget, faulted = sized(moment, last)
    made = _within(moment.within(int(budget)), last.as_continued())
    made = replace(made, budget=budget, faulted=faulted)
    return show_newest(moment, made) if 0 < moment.view.start < moment.view.budget else made


def follow(view: PolicyInput) -> Selection | None:
    """Return the selection of the last answered call, as if each since `previous` had been made."""
    last, track = view.previous, tracker(view)
    for position in range(last.messages + 1 if last else 0, len(view.history)):
        if view.history.roles[position] == "assistant":
            last = step(CallContext(view, position, track), last or NOTHING_SHOWN)
    return last


def _within(moment: CallContext, last: Selection) -> Selection:
    """Return the selection under the step's budget."""
    if not last.is_over and moment.fits:
        return Selection(moment.messages)
    cached = moment.turn % SELECT_EVERY and not _is_expired(moment, last)
    if cached and (choice := appended(moment, last)):
        return _selection(choice, choice.excerpts(), last.rebuilt, last.breakpoints)
    made = _selected(moment, last, bool(cached))
    excerpts = made.choice.excerpts()
    breakpoints = breakpoints_of(made.choice, excerpts, made.cut, last.breakpoints)
    return _selection(made.choice, excerpts, moment.messages, breakpoints)


def _is_expired(moment: CallContext, last: Selection) -> bool:
    """Whether no cache can hold the last prompt any more."""
    minutes = moment.view.parameters.cache_ttl_minutes
    return bool(minutes) and last.is_over and moment.seconds_since(last.messages) > 60 * minutes


def _selected(moment: CallContext, last: Selection, cached: bool) -> PartialRebuild:
    """What is shown when something must leave: late, else all anew."""
    density, share = density_of(moment), moment.view.parameters.rebuild_share
    text = text_at(moment, last.text)
    anew = SelectionBuilder(moment, text)
    select_few(anew, density, share)
    if cached and text == last.text:
        late = selected_late(moment, last, anew, density, share)
        if late is not None:
            return late
    return PartialRebuild(anew)


def _selection(
    choice: SelectionBuilder,
    excerpts: dict[int, Substitute],
    rebuilt: int,
    breakpoints: tuple[int, ...],
) -> Selection:
    return Selection(
        choice.moment.messages,
        choice.text,
        tuple(sorted(choice.complete)),
        excerpts,
        dict(choice.restored),
        choice.arguments,
        is_over=True,
        rebuilt=rebuilt,
        breakpoints=breakpoints,
    )


def _reasons(view: PolicyInput, selection: Selection) -> dict[int, str]:
    history, since = view.history, selection.rebuilt
    positions = history.results.message
    turn = history.turns[since] if since < len(history.roles) else history.turn
    rebuilt = f"the prompt was rebuilt at call {turn}"
    reasons = dict.fromkeys(range(len(positions)), f"left out when {rebuilt}")
    for result in selection.complete:
        if positions[result] >= since:
            reasons[result] = f"appended since {rebuilt}"
        elif since < selection.messages:
            reasons[result] = f"kept when {rebuilt}"
        else:
            reasons[result] = "selected"
    reasons |= dict.fromkeys(selection.excerpts, IN_PART)
    once = [result for result in selection.next_excerpts if result not in selection.excerpts]
    return reasons | dict.fromkeys(once, COMPLETE_ONCE)


QUARTERS: Final = (0.25, 0.5, 0.75)
MOST: Final = 3


def breakpoints_of(
    choice: SelectionBuilder, excerpts: dict[int, Substitute], cut: int, before: tuple[int, ...]
) -> tuple[int, ...]:
    """Positions of messages: about the quarters of the prompt, the end not among them.

    If the prompt stays the same up to `cut`, the last of the breakpoints `before` within it is
    kept; without one the cut becomes one. A cache can be read only from these.
    """
    sizes = _prompt_sizes(choice, excerpts)
    ends = np.cumsum(sizes)
    quarters = np.searchsorted(ends, [share * ends[-1] for share in QUARTERS]).tolist()
    kept = [position for position in before if position <= cut] or [cut] * (cut >= 0)
    behind = [position for position in quarters if position > max(kept, default=-1)]
    return tuple(sorted({*kept[-1:], *behind[len(kept[-1:]) - MOST :]}))


def _prompt_sizes(choice: SelectionBuilder, excerpts: dict[int, Substitute]) -> np.ndarray:
    """Tokens of each message as it is shown."""
    moment, history = choice.moment, choice.moment.view.history
    results, sizes = history.results, sizes_of(choice.text, moment)
    outside = list(moment.outside)
    sizes[outside] = np.array(history.text_tokens, np.int64)[outside]
    for result in (*choice.complete, *excerpts):
        made = excerpts.get(result)
        sizes[results.call_message[result]] += choice.calls[result]
        sizes[results.message[result]] += made.tokens if made else results.tokens[result]
    return sizes
