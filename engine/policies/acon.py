"""History compression under a guideline (docs/policies.md, acon)."""

from typing import Final

from engine.plan.beside_summary import text_after
from engine.plan.plan import Plan
from engine.plan.view import View
from engine.plan.with_summary import Method, summarised
from engine.policies.prune import prune

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
