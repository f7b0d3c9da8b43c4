"""The automatic budget: it grows after a turn with a miss, and shrinks after any other turn.

This is the page-fault frequency algorithm of operating systems (docs/policies.md, Budget).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.history import NO_CALL
from contextrender_bridge.engine.history.token_tracking import Tracking
from contextrender_bridge.engine.history.tracked_tokens import Ids
from contextrender_bridge.engine.parameters import MIN_AUTO_BUDGET
from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.call_text import min_budget_for_users
from contextrender_bridge.engine.plan.selection import Selection

GROWTH: Final = 0.25
"""The share by which the budget grows after a miss."""

STEADY_MISS_SHARE: Final = 0.025
"""If this share of the turns has a miss, the budget neither grows nor shrinks in the long run."""

SHRINKAGE: Final = GROWTH * STEADY_MISS_SHARE / (1 - STEADY_MISS_SHARE)
"""The share by which the budget shrinks after a turn without a miss."""


def adjust_budget(context: CallContext, previous: Selection) -> tuple[float, bool]:
    """Return the call's budget in tokens, and whether the turn before it had a miss.

    `previous` is the selection of the call before. If no prompt has omitted anything yet, return
    the start budget. Otherwise change the previous budget, within its smallest and largest value.
    """
    largest = float(context.budget)
    start = min(float(context.start_budget or largest), largest)
    if not previous.is_over:
        return start, False
    follows_miss = bool(missed_tokens(context, previous))
    change = GROWTH if follows_miss else -SHRINKAGE
    budget = (previous.budget or start) * (1 + change)
    smallest = max(_smallest_budget(context), min(float(MIN_AUTO_BUDGET), largest))
    return min(max(budget, smallest), largest), follows_miss


RECENT_SHARE: Final = 0.5
RECENT_TURNS: Final = 8
"""The budget is at least `RECENT_SHARE` of the tokens of all results of the last `RECENT_TURNS`."""


def _smallest_budget(context: CallContext) -> float:
    """Return the larger of two lower limits: one for recent results, one for user messages.

    Not all recent results need to fit, because some may be excerpts or omitted. The limit for user
    messages includes tokens for results, so the two limits are not added.
    """
    is_recent = context.result_turns >= context.turn - RECENT_TURNS
    recent_tokens = float(context.sizes[is_recent].sum())
    return max(RECENT_SHARE * recent_tokens, min_budget_for_users(context))


def missed_tokens(context: CallContext, previous: Selection) -> list[int]:
    """Return the tracked tokens that the previous call's answer used, but its prompt did not show.

    A token counts as used only if it was in a result before that call (its owner).
    """
    history = context.history
    answer = previous.messages  # the message after the call's messages is its answer
    if answer >= len(history.roles):
        return []  # the call has no answer yet
    tracking = context.tracking_with(answer + 1)
    tokens = _tokens_of_message(answer, context, tracking)
    owners = tracking.owners(tokens)
    result_count = history.results_before(answer)
    used_tokens = tokens[(owners >= 0) & (owners < result_count)]
    return unseen_tokens(context, tracking, previous, used_tokens) if len(used_tokens) else []


def _tokens_of_message(message: int, context: CallContext, tracking: Tracking) -> Ids:
    """Return the distinct tracked tokens of a message and its calls."""
    history = context.history
    first_event, stop = history.first_events[message], history.events_before(message + 1)
    tokens: Ids = np.unique(tracking.ids_of_events(first_event, stop))
    return tokens


def unseen_tokens(
    context: CallContext, tracking: Tracking, previous: Selection, tokens: Ids
) -> list[int]:
    """Return the `tokens` that the prompt of the `previous` selection did not show anywhere."""
    is_complete = _complete_events(context, previous)  # for each event before the call
    is_unseen = np.zeros(tracking.token_count, np.bool_)  # for each tracked token
    is_unseen[tokens] = True
    # Every occurrence of a token is a pair: the event that contains it, and the token. A token is
    # seen if one of its events before the call was shown complete.
    events, event_tokens = tracking.occurrences(is_unseen)
    is_before_call = events < len(is_complete)
    events, event_tokens = events[is_before_call], event_tokens[is_before_call]
    is_unseen[event_tokens[is_complete[events]]] = False
    if is_unseen.any():  # tokens that no complete event has may be in a substitute
        parts = (previous.excerpts, previous.arguments, previous.text.cut)
        texts = [substitute.text for part in parts for substitute in part.values()]
        texts += [restored.text for restored in previous.restored.values()]
        is_unseen[tracking.ids_of_texts(texts)] = False
    return [int(token) for token in np.flatnonzero(is_unseen)]


def _complete_events(context: CallContext, previous: Selection) -> NDArray[np.bool_]:
    """Return, for each event before the previous call, whether its prompt showed it complete."""
    history, messages = context.history, previous.messages
    results, result_count = history.results, history.results_before(messages)
    is_complete = np.zeros(history.events_before(messages), np.bool_)

    # Texts are complete unless they were dropped or cut. The first event of a message is its text.
    # For a result's message, the first event is the result, which is handled below.
    first_events, text = history.first_events, previous.text
    is_complete[np.array(first_events[:messages], np.int64)] = True
    is_complete[[first_events[message] for message in (*text.dropped, *text.cut)]] = False

    # Results are complete only if the selection lists them.
    is_complete[np.array(results.event[:result_count], np.int64)] = False
    is_complete[[results.event[result] for result in previous.complete]] = True

    # A call is shown with its result, and is complete unless its arguments were cut.
    with_complete_call = {*previous.complete, *previous.excerpts} - {*previous.arguments}
    call_events = [results.call_event[result] for result in with_complete_call]
    is_complete[[event for event in call_events if event != NO_CALL]] = True
    return is_complete
