"""The text selection of a model call, for policies that track tokens (docs/policies.md, Text).

Text is limited, so that the prompt can have results. The assistant's texts are dropped before the
user's are cut. Results are not dropped with the text of their turn.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.plan.call_context import CallContext, Ints
from contextrender_bridge.engine.plan.retained_text import excerpts_of
from contextrender_bridge.engine.plan.selection import ALL_TEXT, Substitute, TextSelection

CAP: Final = 0.5
"""The share of the budget above which text is dropped and cut."""
TARGET: Final = 0.3
"""The share of the budget that text has afterwards."""
RETURN: Final = 0.2
"""The share of the budget below which dropped text is selected again."""
NEWEST_SHARE: Final = 0.25
"""The share of the budget that the newest results have beside text that may not be dropped."""
NEWEST_USER: Final = 3
"""The number of the user's newest messages that stay complete, as the first one does."""
MIN_TOKENS: Final = 28
"""The fewest tokens that a user's message is cut to, while the budget permits."""


def sizes_of(text: TextSelection, context: CallContext) -> Ints:
    """Return the budgeted tokens of each message's text in a text selection."""
    sizes = context.text_tokens.copy()
    sizes[list(text.dropped)] = 0
    for position, substitute in text.cut.items():
        sizes[position] = 0 if position in context.unbudgeted else substitute.tokens
    return sizes


def are_changed(text: TextSelection, context: CallContext) -> NDArray[np.bool_]:
    """Return, for each message, whether its text is dropped or cut."""
    is_changed = np.zeros(context.message_count, np.bool_)
    is_changed[[*text.dropped, *text.cut]] = True
    return is_changed


def select_text(context: CallContext, before: TextSelection = ALL_TEXT) -> TextSelection:
    """Return the text selection `before` if its size is right, otherwise a new one.

    The size is right if it is at most `CAP` of the budget, and at least `RETURN` of the budget.
    Below that, dropped text fits again. The selection of all text cannot be too small.
    """
    total, budget = int(sizes_of(before, context).sum()), context.view.budget
    lower_limit = RETURN * budget if before != ALL_TEXT else 0
    is_right_size = lower_limit <= total <= CAP * budget
    return before if is_right_size else _select_less_text(context)


def min_budget_for_users(context: CallContext) -> float:
    """Return the smallest budget within which every user message fits, cut to `MIN_TOKENS`."""
    user_tokens = context.text_tokens[_are_users(context)]
    return float(np.minimum(user_tokens, MIN_TOKENS).sum()) / CAP


def _select_less_text(context: CallContext) -> TextSelection:
    """Return a text selection of about `TARGET` of the budget.

    The assistant's texts are dropped, the oldest first, but never the last one. Then the user's are
    cut evenly. If the texts still leave the newest results less than `NEWEST_SHARE`, all are cut.
    The user's first and newest messages are not cut, unless they are large (`_complete_users`).
    """
    budget, sizes = context.view.budget, context.text_tokens.copy()
    are_users = _are_users(context)
    dropped: list[int] = []
    total = int(sizes.sum())
    for position in np.flatnonzero(_may_be_dropped(context) & ~are_users & (sizes > 0)).tolist():
        if total <= TARGET * budget:
            break
        total -= int(sizes[position])
        sizes[position] = 0
        dropped.append(position)
    if total <= TARGET * budget:
        return TextSelection(tuple(dropped))
    cut = _cut_users(context, sizes, are_users)
    for position, substitute in cut.items():
        sizes[position] = substitute.tokens
    cut |= _cut_remaining(context, sizes)
    return TextSelection(tuple(dropped), cut)


def _cut_users(
    context: CallContext, sizes: Ints, are_users: NDArray[np.bool_]
) -> dict[int, Substitute]:
    """Return excerpts of the user's messages, so that all text has at most `TARGET` of the budget.

    The first and the newest messages stay complete if they are small (`_complete_users`). Each of
    the others may have `MIN_TOKENS`, even if the text then exceeds `TARGET`. `sizes` has the tokens
    of each message's text, 0 for a dropped one.
    """
    view, other_tokens = context.view, int(sizes[~are_users].sum())
    positions = np.flatnonzero(are_users & (sizes > 0)).tolist()
    complete = {*_complete_users(context)}
    complete_tokens = sum(int(sizes[position]) for position in complete)
    sizes_to_cut = {p: int(sizes[p]) for p in positions if p not in complete}
    limit = int(TARGET * view.budget) - other_tokens - complete_tokens
    min_tokens = sum(min(size, MIN_TOKENS) for size in sizes_to_cut.values())
    return excerpts_of(sizes_to_cut, max(limit, min_tokens), view.text_of, view.counter)


def _cut_remaining(context: CallContext, sizes: Ints) -> dict[int, Substitute]:
    """Return excerpts of the texts, so that the newest results have `NEWEST_SHARE` of the budget.

    The user's first and newest messages stay complete if they are small (`_complete_users`). All
    other texts are cut to equal shares. `sizes` has the tokens of each message's text so far.
    """
    view = context.view
    text_limit = int((1 - NEWEST_SHARE) * view.budget)
    if (total := int(sizes.sum())) <= text_limit:
        return {}
    sizes = sizes.copy()
    sizes[_complete_users(context)] = 0
    sizes_to_cut = {int(p): int(sizes[p]) for p in np.flatnonzero(sizes)}
    complete_tokens = total - sum(sizes_to_cut.values())
    return excerpts_of(sizes_to_cut, text_limit - complete_tokens, view.text_of, view.counter)


def _complete_users(context: CallContext) -> list[int]:
    """Return the first message of the user and the newest ones, if they have at most `TARGET`."""
    users = [p for p in range(context.message_count) if context.view.history.roles[p] == "user"]
    first, later = users[:1], users[1:]
    complete = [*first, *later[-NEWEST_USER:]]
    fits = int(context.text_tokens[complete].sum()) <= TARGET * context.view.budget
    return complete if fits else []


def _are_users(context: CallContext) -> NDArray[np.bool_]:
    """Return, for each message, whether it is not the assistant's: a system message counts, too.

    Results count as well, but their messages have no text.
    """
    roles = context.view.history.roles[: context.message_count]
    return np.array([role != "assistant" for role in roles], np.bool_)


def _may_be_dropped(context: CallContext) -> NDArray[np.bool_]:
    """Return, for each message, whether its text may be dropped.

    That is not so for the assistant's last message, the system prompt and the current user message.
    """
    may_be_dropped = np.ones(context.message_count, np.bool_)
    may_be_dropped[list(context.unbudgeted)] = False
    if context.last_assistant >= 0:
        may_be_dropped[context.last_assistant] = False
    return may_be_dropped
