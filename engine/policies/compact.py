"""A model compresses the whole history (docs/policies.md, compact)."""

from engine.plan.beside_summary import text_after
from engine.plan.plan import Plan
from engine.plan.view import View
from engine.plan.with_summary import Method, summarised
from engine.policies.prune import prune


def compact(view: View) -> Plan:
    """Typed notes on everything there is; then what comes after them, until B is full again."""
    return summarised(view, COMPACT, otherwise=prune)


def _everything(view: View) -> int:
    return len(view.history)


COMPACT = Method("compact", share=0.5, text_of=text_after, boundary=_everything)
