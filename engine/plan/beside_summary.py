"""The text that stays beside a summary (docs/policies.md, Policies that need a model)."""

from typing import Final

from engine.plan.retained import Retained, retain_text
from engine.plan.view import View, everything
from engine.text.excerpt import excerpt
from engine.text.tokens import MESSAGE_OVERHEAD

TASK_SHARE: Final = 0.2
"""The share of the budget that the first user message may have beside a summary."""

TEXT_SHARE: Final = 0.4
"""The share of the budget that text may have where it stays although it is summarised."""


def text_after(view: View, covered: int) -> Retained:
    """The first user message, shortened to its share, and all text after what is covered."""
    history, sizes = view.history, view.history.text_tokens
    whole = everything(view).retained
    task, room = history.first_user, int(TASK_SHARE * view.budget)
    left = frozenset(range(covered)) - whole.outside - {task}
    tokens = whole.tokens - sum(sizes[position] for position in left)
    excerpts: dict[int, str] = {}
    if 0 <= task < covered and task not in whole.outside and sizes[task] > room:
        excerpts[task] = excerpt(view.text_of(task), room - MESSAGE_OVERHEAD, view.counter)
        tokens -= sizes[task]
        if excerpts[task]:
            tokens += view.counter.text(excerpts[task]) + MESSAGE_OVERHEAD
    return Retained(tokens, whole.outside, whole.outside_tokens, (), left, excerpts)


def text_within_share(view: View) -> Retained:
    """All text, by the method's own rule under its share of the budget."""
    return retain_text(view.history, int(TEXT_SHARE * view.budget), view.text_of, view.counter)


def text_of_all(view: View, covered: int) -> Retained | None:
    """`text_within_share`, unless text leaves that is not covered."""
    kept = text_within_share(view)
    return kept if max(kept.left_messages, default=-1) < covered else None
