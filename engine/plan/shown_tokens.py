"""Which tracked tokens stood in a prompt as it was frozen."""

import numpy as np
from numpy.typing import NDArray

from engine.history.frozen import Frozen
from engine.history.tracking import Tracking
from engine.plan.moment import Moment
from engine.text.values import Ids


def unseen_in(moment: Moment, tracking: Tracking, last: Frozen, wanted: Ids) -> list[int]:
    """Those of these tokens that the prompt `last` of this history showed nowhere, by number.

    Texts that stand in for others are only read for tokens that stood in no whole one.
    """
    events = _whole_events(moment, last)
    found = np.zeros(tracking.tokens, np.bool_)
    found[wanted] = True
    saying, tokens = tracking.events_saying(found)
    inside = saying < len(events)
    found[tokens[inside][events[saying[inside]]]] = False
    texts = (last.excerpts, last.calls, last.text.cut, last.added)
    if found.any():
        found[tracking.known([made.text for each in texts for made in each.values()])] = False
    return [int(token) for token in np.flatnonzero(found)]


def _whole_events(moment: Moment, last: Frozen) -> NDArray[np.bool_]:
    """By event before that call: whether it stood in its prompt as it is."""
    history, messages = moment.view.history, last.messages
    results, count = history.results, history.results_before(messages)
    firsts = history.first_events
    stop = firsts[messages] if messages < len(firsts) else history.events
    whole = np.zeros(stop, np.bool_)
    whole[np.array(firsts[:messages], np.int64)] = True
    whole[[firsts[message] for message in (*last.text.left, *last.text.cut)]] = False
    whole[np.array(results.event[:count], np.int64)] = False
    whole[[results.event[result] for result in last.complete]] = True
    shown = {*last.complete, *last.excerpts} - {*last.calls}
    whole[[results.call_event[result] for result in shown]] = True
    return whole
