"""The budget that finds itself: it grows when something was missed, and sinks while nothing is.

Page-fault frequency, as operating systems size a working set (docs/policies.md, Budget).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.history import NO_CALL
from contextrender_bridge.engine.history.token_tracking import Tracking
from contextrender_bridge.engine.parameters import MIN_AUTO_BUDGET
from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.call_text import least_text
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.text.values import Ids

GROWTH: Final = 0.25
RATE: Final = 0.025
"""The share of turns that miss something at which the budget stays as it is."""


def adjust_budget(moment: CallContext, last: Selection) -> tuple[float, bool]:
    """Return the step's budget in tokens, and whether the turn before it faulted."""
    largest = moment.view.budget
    start = float(min(moment.view.start or largest, largest))
    if not last.is_over:
        return start, False
    faulted = bool(missed(moment, last))
    change = GROWTH if faulted else -GROWTH * RATE / (1 - RATE)
    budget = max((last.budget or start) * (1 + change), _floor(moment))
    return min(max(budget, float(min(MIN_AUTO_BUDGET, largest))), float(largest)), faulted


FLOOR_SHARE: Final = 0.5
FLOOR_TURNS: Final = 8


def _floor(moment: CallContext) -> float:
    """Return the least budget: for what the last turns brought, and for what the user said."""
    recent = moment.result_turns >= moment.turn - FLOOR_TURNS
    return max(FLOOR_SHARE * float(moment.sizes[recent].sum()), least_text(moment))


def missed(moment: CallContext, last: Selection) -> list[int]:
    """Return the tracked tokens that the last turn said and its prompt showed nowhere.

    Only those that a result owned before that call.
    """
    history = moment.view.history
    if last.messages >= len(history.roles):
        return []  # nothing has answered it yet
    tracking = moment.tracking_with(last.messages + 1)
    said = _said_at(last.messages, moment, tracking)
    owners = tracking.owners(said)
    before = history.results_before(last.messages)
    wanted = said[(owners >= 0) & (owners < before)]
    return unseen_in(moment, tracking, last, wanted) if len(wanted) else []


def _said_at(message: int, moment: CallContext, tracking: Tracking) -> Ids:
    first = moment.view.history.first_events
    stop = first[message + 1] if message + 1 < len(first) else moment.view.history.events
    said: Ids = np.unique(tracking.ids_of_events(first[message], stop))
    return said


def unseen_in(moment: CallContext, tracking: Tracking, last: Selection, wanted: Ids) -> list[int]:
    """Return those of these tokens that the prompt `last` of this history showed nowhere.

    Texts that stand in for others are only read for tokens that stood in no whole one.
    """
    events = _whole_events(moment, last)
    found = np.zeros(tracking.tokens, np.bool_)
    found[wanted] = True
    saying, tokens = tracking.occurrences(found)
    inside = saying < len(events)
    found[tokens[inside][events[saying[inside]]]] = False
    if found.any():
        texts = (last.excerpts, last.arguments, last.text.cut)
        shown = [made.text for each in texts for made in each.values()]
        shown += [made.text for made in last.restored.values()]
        found[tracking.ids_of_texts(shown)] = False
    return [int(token) for token in np.flatnonzero(found)]


def _whole_events(moment: CallContext, last: Selection) -> NDArray[np.bool_]:
    """Return, by event before that call, whether it stood in its prompt as it is."""
    history, messages = moment.view.history, last.messages
    results, count = history.results, history.results_before(messages)
    firsts = history.first_events
    stop = firsts[messages] if messages < len(firsts) else history.events
    whole = np.zeros(stop, np.bool_)
    whole[np.array(firsts[:messages], np.int64)] = True
    whole[[firsts[message] for message in (*last.text.dropped, *last.text.cut)]] = False
    whole[np.array(results.event[:count], np.int64)] = False
    whole[[results.event[result] for result in last.complete]] = True
    shown = {*last.complete, *last.excerpts} - {*last.arguments}
    calls = [results.call_event[result] for result in shown]
    whole[[event for event in calls if event != NO_CALL]] = True
    return whole
