"""Recent results complete, older ones summarised (docs/policies.md, recency_summary)."""

from typing import Final

import numpy as np

from engine.history.history import NO_CALL
from engine.plan.beside_summary import text_of_all, text_within_share
from engine.plan.plan import Plan
from engine.plan.view import View
from engine.plan.with_summary import Method, call_reserve, summarised
from engine.policies.prune import prune

SUMMARY_SHARE: Final = 0.2
RECENT_SHARE: Final = 0.5
"""The share of what text and summary leave free that recent results get when one is made."""


def recency_summary(view: View) -> Plan:
    """The newest turns' results complete; typed notes on those before; all text, within a share."""
    return summarised(view, RECENCY_SUMMARY, otherwise=prune)


def _before_recent_turns(view: View) -> int:
    """Where the newest turns begin whose results fit their share; the last one may have all."""
    history, results = view.history, view.history.results
    text = text_within_share(view)
    free = view.budget - text.tokens - int(SUMMARY_SHARE * view.budget) - call_reserve(view)
    turns = np.array(results.turn, dtype=np.int64)
    asked = np.asarray(results.call_event, dtype=np.int64) != NO_CALL
    boundary, used = len(history), 0
    for turn in reversed(np.unique(turns[asked]).tolist()):
        of_turn = np.flatnonzero(asked & (turns == turn))
        used += int(view.costs[of_turn].sum())
        if used > (free if turn == history.assistants else RECENT_SHARE * free):
            break
        boundary = results.call_message[int(of_turn[0])]
    return max(boundary, max(text.left_messages, default=-1) + 1)


RECENCY_SUMMARY = Method(
    "recency_summary", share=SUMMARY_SHARE, text_of=text_of_all, boundary=_before_recent_turns
)
