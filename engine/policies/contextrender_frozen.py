"""The last rendering repeated and appended to (docs/policies.md, contextrender_frozen)."""

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from engine.history.frozen import Frozen, FrozenTrail, frozen_key
from engine.history.history import History
from engine.history.tracking import Tracking
from engine.plan.choice import Choice
from engine.plan.chosen_plan import IN_PART
from engine.plan.density import density_of
from engine.plan.excerpts import Excerpting
from engine.plan.in_parts import select_in_parts
from engine.plan.moment import Moment, present, tracking_of
from engine.plan.plan import Plan
from engine.plan.text_cap import retained_without, turns_to_leave
from engine.plan.view import View

SELECT_EVERY: Final = 128
"""Invocations after which all is selected anew in any case, so that no more need be followed."""

LEAST_EXCERPT: Final = 200
"""Tokens under which a newcomer's excerpt is not worth it: then all is selected anew."""


def contextrender_frozen(view: View) -> Plan:
    """The last call's rendering and what is new; selected anew when that exceeds the budget."""
    history = view.history
    key = frozen_key(view.budget, view.parameters)
    trail = history.frozen.get(key, FrozenTrail())
    if trail.latest.messages != len(history):
        trail = history.frozen[key] = _follow(view, trail)
    frozen = trail.latest
    return Plan(
        retained_without(present(view), frozen.left),
        list(frozen.complete),
        {result: made.tokens for result, made in frozen.excerpts.items()},
        texts=frozen.excerpts,
        reasons=_reasons(view, frozen),
    )


def _follow(view: View, trail: FrozenTrail) -> FrozenTrail:
    """The trail at the next invocation, by way of every one since."""
    history, end = view.history, len(view.history)
    answered, latest = trail.answered, trail.latest
    if 0 <= latest.messages < end and history.roles[latest.messages] == "assistant":
        answered = latest
    track = _tracker(view)
    for messages in reversed(_unanswered(history, answered.messages)):
        answered = _step(Moment(view, messages, track), answered)
    return FrozenTrail(answered, _step(Moment(view, end, track), answered))


def _unanswered(history: History, known: int) -> list[int]:
    """Messages before each invocation answered since `known`, the latest first.

    Those before one that selects anew in any case do not matter.
    """
    found: list[int] = []
    for position in range(len(history) - 1, known, -1):
        if history.roles[position] == "assistant":
            found.append(position)
            if history.turns[position] % SELECT_EVERY == 0:
                break
    return found


def _step(moment: Moment, last: Frozen) -> Frozen:
    if not last.over and moment.fits:
        return Frozen(moment.messages)
    choice, since = _appended(moment, last) if moment.turn % SELECT_EVERY else None, last.since
    if choice is None:
        left, share = turns_to_leave(moment), moment.view.parameters.frozen_share
        choice = select_in_parts(moment, left, density_of(moment), share)
        since = moment.messages
    excerpts = choice.excerpts()
    complete = tuple(choice.complete)
    return Frozen(moment.messages, True, choice.left, complete, excerpts, since)


def _appended(moment: Moment, last: Frozen) -> Choice | None:
    """The last rendering and what is new since; None if that exceeds the budget.

    A newcomer that takes too much is appended as an excerpt.
    """
    choice, parameters = Choice(moment, last.left), moment.view.parameters
    free = choice.free
    seen = bisect_left(moment.view.history.results.message, last.messages)
    for result in last.complete if last.over else range(seen):
        if choice.available[result]:
            choice.take(result)
    for result, excerpt in last.excerpts.items():
        choice.keep(result, excerpt)
    most = min(
        parameters.newest_share * free,
        max((free - choice.used) / 2, parameters.eager * free),
    )
    large: list[int] = []
    for result in range(seen, moment.results):
        if not choice.available[result]:
            continue
        if choice.costs[result] > most:
            large.append(result)
        else:
            choice.take(result)
    left_over = free - choice.used
    if left_over < 0:
        return None
    if large:
        size = left_over / 2 / len(large)
        if size < LEAST_EXCERPT:
            return None
        excerpting = Excerpting(choice, density_of(moment))
        for result in large:
            excerpting.one(result, size)
    return choice


def _tracker(view: View) -> Callable[[int], Tracking]:
    """Tracking as of a number of messages: the history's own, or another if that is ahead."""
    behind = Tracking()

    def track(messages: int) -> Tracking:
        own = view.history.tracking
        if own is None or own.messages <= messages:
            return tracking_of(view, messages)
        behind.catch_up(view.history, messages, view.originals, view.counter)
        return behind

    return track


def _reasons(view: View, frozen: Frozen) -> dict[int, str]:
    positions = view.history.results.message
    reasons = dict.fromkeys(range(len(positions)), "left out when all was last selected")
    for result in frozen.complete:
        if positions[result] >= frozen.since:
            reasons[result] = "appended since all was last selected"
        elif frozen.since < frozen.messages:
            reasons[result] = "kept from when all was last selected"
        else:
            reasons[result] = "selected"
    reasons |= dict.fromkeys(frozen.excerpts, IN_PART)
    return reasons
