"""A model compresses the whole history (docs/policies.md, compact)."""

from engine.covered_text import text_after
from engine.policies.prune import prune
from engine.rendering import Plan, View
from engine.summarised import Method, summarised


def compact(view: View) -> Plan:
    """Typed notes on everything there is; then what comes after them, until B is full again."""
    return summarised(view, COMPACT, otherwise=prune)


def _everything(view: View) -> int:
    return len(view.history)


COMPACT = Method("compact", share=0.5, text_of=text_after, boundary=_everything)
