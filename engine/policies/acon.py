"""History compression under a guideline (docs/policies.md, acon)."""

from typing import Final

from engine.covered_text import text_after
from engine.policies.prune import prune
from engine.rendering import Plan, View
from engine.summarised import Method, summarised

LAST_TURN_SHARE: Final = 0.25


def acon(view: View) -> Plan:
    """A text that follows the guideline for all but the last turn, which stays if it is small."""
    return summarised(view, ACON, otherwise=prune)


def _before_last_turn(view: View) -> int:
    history = view.history
    last = history.last_assistant
    if last <= 0:
        return len(history)
    whole = history.totals[-1] - history.totals[last - 1]
    return last if whole <= LAST_TURN_SHARE * view.budget else len(history)


ACON = Method("acon", share=0.4, text_of=text_after, boundary=_before_last_turn, guided=True)
