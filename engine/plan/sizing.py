"""The budget that finds itself: it grows when something was missed, and sinks while nothing is.

Page-fault frequency, as operating systems size a working set (docs/policies.md, Budget).
"""

from typing import Final

import numpy as np

from engine.history.frozen import Frozen
from engine.history.tracking import Tracking
from engine.parameters import AUTO
from engine.plan.moment import Moment
from engine.plan.shown_tokens import unseen_in
from engine.text.values import Ids

START: Final[int] = 24_000
LEAST: Final = 8_000
MOST: Final = 160_000
WINDOW_SHARE: Final = 0.8
"""The most of a model's window that a budget which finds itself may be."""

GROWTH: Final = 0.25
RATE: Final = 0.025
"""The share of turns that miss something at which the budget stays as it is."""


def limits_of(budget: int, window: int | None) -> tuple[int, int]:
    """The most that a call's budget may be, in tokens, and where it starts.

    A budget that is given is both. `window` is the model's, where that is known.
    """
    if budget != AUTO:
        return budget, budget
    most = min(MOST, int(WINDOW_SHARE * window)) if window else MOST
    return most, min(START, most)


def sized(moment: Moment, last: Frozen) -> tuple[float, bool]:
    """The step's budget in tokens, and whether the turn before it faulted."""
    most = moment.view.budget
    start = float(min(moment.view.start or most, most))
    if not last.over:
        return start, False
    faulted = bool(missed(moment, last))
    change = GROWTH if faulted else -GROWTH * RATE / (1 - RATE)
    budget = (last.budget or start) * (1 + change)
    return min(max(budget, float(min(LEAST, most))), float(most)), faulted


def missed(moment: Moment, last: Frozen) -> list[int]:
    """The tracked tokens that the last turn said and no part of its prompt showed, by number.

    Only those that a result owned before that call.
    """
    history = moment.view.history
    if last.messages >= len(history):
        return []  # nothing has answered it yet
    tracking = moment.tracked_at(last.messages + 1)
    said = _said_at(last.messages, moment, tracking)
    owners = tracking.owners(said)
    before = history.results_before(last.messages)
    wanted = said[(owners >= 0) & (owners < before)]
    return unseen_in(moment, tracking, last, wanted) if len(wanted) else []


def _said_at(message: int, moment: Moment, tracking: Tracking) -> Ids:
    first = moment.view.history.first_events
    stop = first[message + 1] if message + 1 < len(first) else moment.view.history.events
    said: Ids = np.unique(
        np.concatenate([tracking.ids_of_event(event) for event in range(first[message], stop)])
    )
    return said
