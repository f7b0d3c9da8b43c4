"""The automatic budget: it grows after a turn with a miss, and shrinks after any other turn.

This is the page-fault frequency algorithm of operating systems (docs/policies.md, Budget).
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
"""The share of turns with a miss at which the budget does not change in the long run."""


def adjust_budget(context: CallContext, previous: Selection) -> tuple[float, bool]:
    """Return the call's budget in tokens, and whether the turn before it faulted."""
    largest = context.view.budget
    start = float(min(context.view.start or largest, largest))
    if not previous.is_over:
        return start, False
    faulted = bool(missed_tokens(context, previous))
    change = GROWTH if faulted else -GROWTH * RATE / (1 - RATE)
    budget = max((previous.budget or start) * (1 + change), _floor(context))
    return min(max(budget, float(min(MIN_AUTO_BUDGET, largest))), float(largest)), faulted


FLOOR_SHARE: Final = 0.5
FLOOR_TURNS: Final = 8


def _floor(context: CallContext) -> float:
    """Return the smallest budget that fits a share of recent results, and the user's messages."""
    recent = context.result_turns >= context.turn - FLOOR_TURNS
    return max(FLOOR_SHARE * float(context.sizes[recent].sum()), least_text(context))


def missed_tokens(context: CallContext, previous: Selection) -> list[int]:
    """Return the tracked tokens that the last turn used and that its prompt did not show.

    Only tokens that belong to a result before that call count.
    """
    history = context.view.history
    if previous.messages >= len(history.roles):
        return []  # the call has no answer yet
    tracking = context.tracking_with(previous.messages + 1)
    tokens = _tokens_of_message(previous.messages, context, tracking)
    owners = tracking.owners(tokens)
    result_count = history.results_before(previous.messages)
    used_tokens = tokens[(owners >= 0) & (owners < result_count)]
    return unseen_tokens(context, tracking, previous, used_tokens) if len(used_tokens) else []


def _tokens_of_message(message: int, context: CallContext, tracking: Tracking) -> Ids:
    first = context.view.history.first_events
    stop = first[message + 1] if message + 1 < len(first) else context.view.history.events
    tokens: Ids = np.unique(tracking.ids_of_events(first[message], stop))
    return tokens


def unseen_tokens(
    context: CallContext, tracking: Tracking, previous: Selection, tokens: Ids
) -> list[int]:
    """Return the `tokens` that the prompt of the `previous` selection did not show.

    Substitutes are read only for tokens that no complete event of the prompt has.
    """
    is_complete = _complete_events(context, previous)
    is_unseen = np.zeros(tracking.token_count, np.bool_)
    is_unseen[tokens] = True
    events, event_tokens = tracking.occurrences(is_unseen)
    is_before = events < len(is_complete)
    is_unseen[event_tokens[is_before][is_complete[events[is_before]]]] = False
    if is_unseen.any():
        parts = (previous.excerpts, previous.arguments, previous.text.cut)
        texts = [substitute.text for part in parts for substitute in part.values()]
        texts += [restored.text for restored in previous.restored.values()]
        is_unseen[tracking.ids_of_texts(texts)] = False
    return [int(token) for token in np.flatnonzero(is_unseen)]


def _complete_events(context: CallContext, previous: Selection) -> NDArray[np.bool_]:
    """Return, for each event before the previous call, whether its prompt had it complete."""
    history, messages = context.view.history, previous.messages
    results, count = history.results, history.results_before(messages)
    firsts, text = history.first_events, previous.text
    stop = firsts[messages] if messages < len(firsts) else history.events
    is_complete = np.zeros(stop, np.bool_)
    is_complete[np.array(firsts[:messages], np.int64)] = True
    is_complete[[firsts[message] for message in (*text.dropped, *text.cut)]] = False
    is_complete[np.array(results.event[:count], np.int64)] = False
    is_complete[[results.event[result] for result in previous.complete]] = True
    with_complete_call = {*previous.complete, *previous.excerpts} - {*previous.arguments}
    calls = [results.call_event[result] for result in with_complete_call]
    is_complete[[event for event in calls if event != NO_CALL]] = True
    return is_complete
