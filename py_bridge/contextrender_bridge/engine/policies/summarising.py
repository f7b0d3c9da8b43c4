"""Policies in which a model's text replaces the history's beginning (docs/policies.md)."""

from typing import Final

import numpy as np

from contextrender_bridge.engine.history.history import NO_CALL
from contextrender_bridge.engine.plan.policy_input import PolicyInput
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.plan.with_summary import (
    Method,
    call_reserve,
    dropped_until,
    summarised,
    text_after,
    text_of_all,
    text_within_share,
)
from contextrender_bridge.engine.policies.baselines import prune


def compact(view: PolicyInput) -> Selection:
    """Typed notes on everything there is; then what comes after them, until B is full again."""
    return summarised(view, COMPACT, otherwise=prune)


def _everything(view: PolicyInput) -> int:
    return len(view.history)


COMPACT = Method("compact", share=0.5, text_of=text_after, boundary=_everything)


LAST_TURN_SHARE: Final = 0.25


def acon(view: PolicyInput) -> Selection:
    """A text that follows the guideline for all but the last turn, which stays if it is small."""
    return summarised(view, ACON, otherwise=prune)


def _before_last_turn(view: PolicyInput) -> int:
    history = view.history
    last = history.last_assistant
    if last <= 0:
        return len(history)
    whole = history.totals[-1] - history.totals[last - 1]
    return last if whole <= LAST_TURN_SHARE * view.budget else len(history)


ACON = Method("acon", share=0.4, text_of=text_after, boundary=_before_last_turn, guided=True)


SUMMARY_SHARE: Final = 0.2
RECENT_SHARE: Final = 0.5
"""The share of what text and summary leave free that recent results get when one is made."""


def recency_summary(view: PolicyInput) -> Selection:
    """The newest turns' results complete; typed notes on those before; all text, within a share."""
    return summarised(view, RECENCY_SUMMARY, otherwise=prune)


def _before_recent_turns(view: PolicyInput) -> int:
    """Where the newest turns begin whose results fit their share; the last one may have all."""
    history, results = view.history, view.history.results
    text = text_within_share(view)
    free = view.budget - view.tokens_of(text)
    free -= int(SUMMARY_SHARE * view.budget) + call_reserve(view)
    turns = np.array(results.turn, dtype=np.int64)
    asked = np.asarray(results.call_event, dtype=np.int64) != NO_CALL
    boundary, used = len(history), 0
    for turn in reversed(np.unique(turns[asked]).tolist()):
        of_turn = np.flatnonzero(asked & (turns == turn))
        used += int(view.costs[of_turn].sum())
        if used > (free if turn == history.assistants else RECENT_SHARE * free):
            break
        boundary = results.call_message[int(of_turn[0])]
    return max(boundary, dropped_until(view, text))


RECENCY_SUMMARY = Method(
    "recency_summary", share=SUMMARY_SHARE, text_of=text_of_all, boundary=_before_recent_turns
)
