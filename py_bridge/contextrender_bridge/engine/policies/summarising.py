"""Policies in which a history summary replaces the history's beginning (docs/policies.md)."""

from typing import Final

import numpy as np

from contextrender_bridge.engine.history.history import NO_CALL
from contextrender_bridge.engine.plan.policy_input import PolicyInput
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.plan.with_summary import (
    Method,
    call_reserve,
    dropped_until,
    select_with_summary,
    text_after,
    text_of_all,
    text_within_share,
)
from contextrender_bridge.engine.policies.baselines import prune


def compact(view: PolicyInput) -> Selection:
    """Show a model's notes on the first messages, and all messages after them.

    When both together exceed the budget, the model writes new notes that cover all messages.
    """
    return select_with_summary(view, COMPACT, otherwise=prune)


def _all_messages(view: PolicyInput) -> int:
    """Return the number of all messages."""
    return len(view.history)


COMPACT = Method("compact", share=0.5, text_of=text_after, boundary=_all_messages)


LAST_TURN_SHARE: Final = 0.25
"""The largest share of the budget that the last turn beside a summary may have."""


def acon(view: PolicyInput) -> Selection:
    """Show a model's summary, and the last turn if it is small.

    The model follows `CONTEXTRENDER_ACON_GUIDELINE` or our guideline (docs/policies.md).
    """
    return select_with_summary(view, ACON, otherwise=prune)


def _before_last_turn(view: PolicyInput) -> int:
    """Return the number of messages before the last turn, or of all if that turn is large."""
    history = view.history
    last_turn = history.last_assistant
    if last_turn <= 0:
        return len(history)
    turn_tokens = history.totals[-1] - history.totals[last_turn - 1]
    return last_turn if turn_tokens <= LAST_TURN_SHARE * view.budget else len(history)


ACON = Method("acon", share=0.4, text_of=text_after, boundary=_before_last_turn, guided=True)


SUMMARY_SHARE: Final = 0.2
RECENT_SHARE: Final = 0.5
"""The share, of the tokens that text and summary leave, for the results of recent turns."""


def recency_summary(view: PolicyInput) -> Selection:
    """Show the newest turns' results, a model's notes on the earlier turns, and the text.

    The text is limited to its share of the budget.
    """
    return select_with_summary(view, RECENCY_SUMMARY, otherwise=prune)


def _before_recent_turns(view: PolicyInput) -> int:
    """Return the number of messages before the newest turns whose results together fit a share.

    The share is `RECENT_SHARE` of the free tokens. The results of the last turn may take them all.
    Messages of dropped turns are always among those before.
    """
    history, results = view.history, view.history.results
    text = text_within_share(view)
    summary_tokens = int(SUMMARY_SHARE * view.budget) + call_reserve(view)
    free_tokens = view.budget - view.tokens_of(text) - summary_tokens
    turns = np.array(results.turn, dtype=np.int64)
    has_call = np.asarray(results.call_event, dtype=np.int64) != NO_CALL
    boundary, recent_tokens = len(history), 0
    for turn in reversed(np.unique(turns[has_call]).tolist()):
        turn_results = np.flatnonzero(has_call & (turns == turn)).tolist()
        recent_tokens += int(view.costs[turn_results].sum())
        limit = free_tokens if turn == history.assistants else RECENT_SHARE * free_tokens
        if recent_tokens > limit:
            break
        boundary = results.call_message[turn_results[0]]
    return max(boundary, dropped_until(view, text))


RECENCY_SUMMARY = Method(
    "recency_summary", share=SUMMARY_SHARE, text_of=text_of_all, boundary=_before_recent_turns
)
