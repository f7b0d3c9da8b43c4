"""The last rendering repeated and appended to (docs/policies.md, contextrender_cache_aware).

Providers that cache up to marked places read again only what was marked before: `breakpoints`.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from contextrender_bridge.engine.history.frozen import Frozen, FrozenTrail, Substitute, frozen_key
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.plan.append_step import appended
from contextrender_bridge.engine.plan.auto_budget import sized
from contextrender_bridge.engine.plan.call_context import CallContext, present, tracker
from contextrender_bridge.engine.plan.density import density_of
from contextrender_bridge.engine.plan.partial_rebuild import (
    PartialRebuild,
    select_few,
    selected_late,
)
from contextrender_bridge.engine.plan.plan import Plan
from contextrender_bridge.engine.plan.policy_input import PolicyInput, everything
from contextrender_bridge.engine.plan.selection import (
    SelectionBuilder,
    retained_with,
    sizes_of,
    text_at,
)
from contextrender_bridge.engine.policies.by_density import IN_PART

SELECT_EVERY: Final = 128
"""Invocations after which all is selected anew in any case."""

START_EVERY: Final = 512
"""Invocations after which the budget starts anew, too, so that no more need be followed."""


def contextrender_cache_aware(view: PolicyInput) -> Plan:
    """The last call's rendering and what is new; selected anew when that exceeds the budget."""
    history = view.history
    key = frozen_key(view.budget, view.parameters, view.pins, view.start)
    trail = history.frozen.get(key, FrozenTrail())
    if trail.latest.messages != len(history.roles):
        trail = history.frozen[key] = _follow(view, trail)
    frozen = trail.latest
    if not frozen.over:
        return replace(everything(view), budget=int(frozen.budget))
    return Plan(
        retained_with(present(view), frozen.text),
        list(frozen.complete),
        {result: made.tokens for result, made in frozen.excerpts.items()},
        texts=dict(frozen.excerpts),
        calls=dict(frozen.calls),
        reasons=_reasons(view, frozen),
        breakpoints=frozen.breakpoints,
        budget=int(frozen.budget),
        faulted=frozen.faulted,
        added=dict(frozen.added),
        since=frozen.since,
        parts=frozen.parts_since(trail.answered),
    )


def _follow(view: PolicyInput, trail: FrozenTrail) -> FrozenTrail:
    """The trail at the next invocation, by way of every one since."""
    history, end = view.history, len(view.history.roles)
    answered, latest = trail.answered, trail.latest
    if 0 <= latest.messages < end and history.roles[latest.messages] == "assistant":
        answered = latest
    track = tracker(view)
    for messages in reversed(_unanswered(history, answered.messages)):
        answered = _step(CallContext(view, messages, track), answered)
    return FrozenTrail(answered, _step(CallContext(view, end, track), answered))


def _unanswered(history: History, known: int) -> list[int]:
    """Messages before each invocation answered since `known`, the latest first.

    Those before one that begins anew do not matter.
    """
    found: list[int] = []
    for position in range(len(history.roles) - 1, known, -1):
        if history.roles[position] == "assistant":
            found.append(position)
            if history.turns[position] % START_EVERY == 0:
                break
    return found


def _step(moment: CallContext, last: Frozen) -> Frozen:
    if moment.turn % START_EVERY == 0:
        last = Frozen(last.messages)
    budget, faulted = sized(moment, last)
    made = _within(moment.within(int(budget)), last)
    return replace(made, budget=budget, faulted=faulted)


def _within(moment: CallContext, last: Frozen) -> Frozen:
    """The rendering under the step's budget."""
    if not last.over and moment.fits:
        return Frozen(moment.messages)
    cached = moment.turn % SELECT_EVERY and not _is_expired(moment, last)
    if cached and (choice := appended(moment, last)):
        return _frozen(choice, choice.excerpts(), last.since, last.breakpoints)
    made = _selected(moment, last, bool(cached))
    excerpts = made.choice.excerpts()
    breakpoints = breakpoints_of(made.choice, excerpts, made.cut, last.breakpoints)
    return _frozen(made.choice, excerpts, moment.messages, breakpoints)


def _is_expired(moment: CallContext, last: Frozen) -> bool:
    """Whether no cache can hold the last prompt any more."""
    minutes = moment.view.parameters.cache_ttl_minutes
    return bool(minutes) and last.over and moment.seconds_since(last.messages) > 60 * minutes


def _selected(moment: CallContext, last: Frozen, cached: bool) -> PartialRebuild:
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


def _frozen(
    choice: SelectionBuilder,
    excerpts: dict[int, Substitute],
    since: int,
    breakpoints: tuple[int, ...],
) -> Frozen:
    return Frozen(
        choice.moment.messages,
        True,
        choice.text,
        tuple(choice.complete),
        excerpts,
        choice.cut_calls,
        since,
        breakpoints,
        added=dict(choice.added),
    )


def _reasons(view: PolicyInput, frozen: Frozen) -> dict[int, str]:
    history = view.history
    positions = history.results.message
    turn = history.turns[frozen.since] if frozen.since < len(history.roles) else history.turn
    rebuilt = f"the prompt was rebuilt at call {turn}"
    reasons = dict.fromkeys(range(len(positions)), f"left out when {rebuilt}")
    for result in frozen.complete:
        if positions[result] >= frozen.since:
            reasons[result] = f"appended since {rebuilt}"
        elif frozen.since < frozen.messages:
            reasons[result] = f"kept when {rebuilt}"
        else:
            reasons[result] = "selected"
    reasons |= dict.fromkeys(frozen.excerpts, IN_PART)
    return reasons


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
