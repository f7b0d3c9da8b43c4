"""The text selection of a model call, for policies that track tokens (docs/policies.md, Text).

Text is limited, so that the prompt has tokens left for results. The assistant's texts are dropped
first, and then the user's texts are cut. If a text is dropped, the results of its turn stay.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.plan.call_context import CallContext, Ints, excerpts_of
from contextrender_bridge.engine.plan.selection import ALL_TEXT, Substitute, TextSelection

CAP: Final = 0.5
"""If the text exceeds this share of the text budget, it is dropped and cut."""
TARGET: Final = 0.3
"""The share of the text budget to which it is dropped and cut."""
RETURN: Final = 0.2
"""If the text is below this share of the text budget, dropped text is selected again."""
MAX_TEXT_BUDGET: Final = 80_000
"""The text budget is not larger, so that old text does not displace results in long sessions."""
NEWEST_SHARE: Final = 0.25
"""The share of the budget that text must leave for the newest results."""
NEWEST_USER: Final = 3
"""The number of the user's newest messages that stay complete, besides the first one."""
MIN_TOKENS: Final = 28
"""A user's message is not cut to fewer tokens, unless the budget is too small."""


def sizes_of(text: TextSelection, context: CallContext) -> Ints:
    """Return the tokens that each message's text has in a text selection, by position.

    A dropped text and an unbudgeted message have 0 tokens.
    """
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

    The size is right if it is between the shares `RETURN` and `CAP` of the text budget. A selection
    of all text is never too small.
    """
    total, text_budget = int(sizes_of(before, context).sum()), _text_budget(context)
    min_tokens = 0 if before == ALL_TEXT else RETURN * text_budget
    is_right_size = min_tokens <= total <= CAP * text_budget
    return before if is_right_size else _select_less_text(context, text_budget)


def min_budget_for_users(context: CallContext) -> float:
    """Return the smallest budget in which all user messages fit if they are cut to `MIN_TOKENS`.

    Texts may have at most the share `CAP` of a budget.
    """
    user_tokens = context.text_tokens[_are_cut_like_users(context)]
    return float(np.minimum(user_tokens, MIN_TOKENS).sum()) / CAP


def _text_budget(context: CallContext) -> float:
    """Return the budget of which the text may use the shares `CAP` and `TARGET`.

    It is the call's budget, but at most `MAX_TEXT_BUDGET`, or what the user's messages need.
    """
    budget = float(context.budget)
    if budget <= MAX_TEXT_BUDGET:
        return budget
    complete_tokens = int(context.text_tokens[_messages_to_keep_complete(context)].sum())
    user_needs = max(min_budget_for_users(context), complete_tokens / TARGET)
    return min(budget, max(MAX_TEXT_BUDGET, user_needs))


def _select_less_text(context: CallContext, text_budget: float) -> TextSelection:
    """Return a text selection whose size is about the share `TARGET` of the text budget.

    Drop texts of the assistant first. If that is not enough, cut texts of the user. If all texts
    then leave too few tokens for the newest results, cut all texts.
    """
    sizes = context.text_tokens.copy()
    are_users = _are_cut_like_users(context)
    total = int(sizes.sum())

    # Drop the assistant's texts, the oldest first, but never the last one.
    dropped: list[int] = []
    for position in np.flatnonzero(_may_be_dropped(context) & ~are_users & (sizes > 0)).tolist():
        if total <= TARGET * text_budget:
            break
        total -= int(sizes[position])
        sizes[position] = 0
        dropped.append(position)
    if total <= TARGET * text_budget:
        return TextSelection(tuple(dropped))

    # Cut the user's texts, and then all texts if they leave too few tokens for the newest results.
    cut = _cut_users(context, text_budget, sizes, are_users)
    for position, substitute in cut.items():
        sizes[position] = substitute.tokens
    cut |= _cut_remaining(context, sizes)
    return TextSelection(tuple(dropped), cut)


def _cut_users(
    context: CallContext, text_budget: float, sizes: Ints, are_users: NDArray[np.bool_]
) -> dict[int, Substitute]:
    """Return excerpts of the user's messages, so that text has at most `TARGET` of its budget.

    The first and the newest messages stay complete if they are small. Each of the others may have
    `MIN_TOKENS`, even if the text then exceeds `TARGET`. `sizes` has the tokens of each message's
    text, 0 for a dropped one.
    """
    complete = {*_messages_to_keep_complete(context)}
    sizes_to_cut = {
        position: int(sizes[position])
        for position in np.flatnonzero(are_users & (sizes > 0)).tolist()
        if position not in complete
    }
    other_tokens = int(sizes.sum()) - sum(sizes_to_cut.values())
    limit = int(TARGET * text_budget) - other_tokens
    min_tokens = sum(min(size, MIN_TOKENS) for size in sizes_to_cut.values())
    return excerpts_of(sizes_to_cut, max(limit, min_tokens), context.text_of, context.counter)


def _cut_remaining(context: CallContext, sizes: Ints) -> dict[int, Substitute]:
    """Return excerpts of texts, so that the newest results have `NEWEST_SHARE` of the budget.

    Return none if so much is left already. The user's first and newest messages stay complete if
    they are small. All other texts may have equal shares, and are cut if they exceed them. `sizes`
    has the tokens of each message's text so far.
    """
    text_limit = int((1 - NEWEST_SHARE) * context.budget)
    total = int(sizes.sum())
    if total <= text_limit:
        return {}
    complete = {*_messages_to_keep_complete(context)}
    sizes_to_cut = {
        position: int(sizes[position])
        for position in np.flatnonzero(sizes).tolist()
        if position not in complete
    }
    complete_tokens = total - sum(sizes_to_cut.values())
    return excerpts_of(sizes_to_cut, text_limit - complete_tokens, context.text_of, context.counter)


def _messages_to_keep_complete(context: CallContext) -> list[int]:
    """Return the positions of the user's first message and of the `NEWEST_USER` newest ones.

    If these messages together have more tokens than the share `TARGET` of the budget, return none.
    """
    users = [p for p in range(context.message_count) if context.history.roles[p] == "user"]
    first, later = users[:1], users[1:]
    positions = [*first, *later[-NEWEST_USER:]]
    fits = int(context.text_tokens[positions].sum()) <= TARGET * context.budget
    return positions if fits else []


def _are_cut_like_users(context: CallContext) -> NDArray[np.bool_]:
    """Return, for each message, whether its text is cut like a user's: if it is no assistant's.

    Messages with results are among them, but their texts have 0 tokens, so they are never cut.
    """
    roles = context.history.roles[: context.message_count]
    return np.array([role != "assistant" for role in roles], np.bool_)


def _may_be_dropped(context: CallContext) -> NDArray[np.bool_]:
    """Return, for each message, whether its text may be dropped.

    The assistant's last message, the system prompt and the current user message may not.
    """
    may_be_dropped = np.ones(context.message_count, np.bool_)
    may_be_dropped[list(context.unbudgeted)] = False
    if context.last_assistant >= 0:
        may_be_dropped[context.last_assistant] = False
    return may_be_dropped
