"""The text that stays in one model call's prompt (docs/policies.md, Text).

Retained text is capped, so that results have room. The assistant's texts leave before the user's
are shortened. Results do not leave with the text of their turn.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.plan.call_context import CallContext, Ints
from contextrender_bridge.engine.plan.retained_text import excerpts_of
from contextrender_bridge.engine.plan.selection import ALL_TEXT, Substitute, TextSelection

CAP: Final = 0.5
"""The share of the budget above which text is shortened."""
TARGET: Final = 0.3
"""The share of the budget that shortened text has."""
RETURN: Final = 0.2
"""The share of the budget below which text that left returns."""
NEWEST_SHARE: Final = 0.25
"""The share of the budget kept for the newest results beside text that may not leave."""
NEWEST_USER: Final = 3
"""The newest messages of the user that stay whole, as the first one does."""
LEAST_TOKENS: Final = 28
"""The least that a user's message is shortened to, while the budget permits."""


def sizes_of(text: TextSelection, moment: CallContext) -> Ints:
    """Return the tokens of each message's text that stays and that the budget charges."""
    sizes = moment.text_tokens.copy()
    sizes[list(text.dropped)] = 0
    for position, substitute in text.cut.items():
        sizes[position] = 0 if position in moment.outside else substitute.tokens
    return sizes


def gone_from(text: TextSelection, moment: CallContext) -> NDArray[np.bool_]:
    """Return, by message, whether its text is not shown as it was."""
    is_changed = np.zeros(moment.messages, np.bool_)
    is_changed[[*text.dropped, *text.cut]] = True
    return is_changed


def select_text(moment: CallContext, before: TextSelection = ALL_TEXT) -> TextSelection:
    """Return the text that stays: as `before` while that is at most `CAP` of the budget.

    Otherwise it is selected anew, and so it is where some text is missing and what there is has
    less than `RETURN` of the budget.
    """
    total = int(sizes_of(before, moment).sum())
    lower_limit = RETURN * moment.view.budget if before != ALL_TEXT else 0
    return before if lower_limit <= total <= CAP * moment.view.budget else _select_less_text(moment)


def least_text(moment: CallContext) -> float:
    """Return the least budget under which no message of the user leaves."""
    users = moment.text_tokens[_are_users(moment)]
    return float(np.minimum(users, LEAST_TOKENS).sum()) / CAP


def _select_less_text(moment: CallContext) -> TextSelection:
    """Return at most `TARGET` of the budget of text, the assistant's and then the user's.

    The assistant's leave, the oldest first, but never the last. Then the user's are shortened
    evenly, the first and the newest ones last. What may not leave is cut where it leaves the
    newest results less than `NEWEST_SHARE`.
    """
    budget, sizes = moment.view.budget, moment.text_tokens.copy()
    users = _are_users(moment)
    dropped: list[int] = []
    total = int(sizes.sum())
    for position in np.flatnonzero(_may_leave(moment) & ~users & (sizes > 0)).tolist():
        if total <= TARGET * budget:
            return TextSelection(tuple(dropped))
        total -= int(sizes[position])
        sizes[position] = 0
        dropped.append(position)
    if total <= TARGET * budget:
        return TextSelection(tuple(dropped))
    cut = _shorten_users(moment, sizes, users)
    for position, substitute in cut.items():
        sizes[position] = substitute.tokens
    cut |= _shorten_rest(moment, sizes)
    return TextSelection(tuple(dropped), cut)


def _shorten_users(
    moment: CallContext, sizes: Ints, users: NDArray[np.bool_]
) -> dict[int, Substitute]:
    """Return the excerpts of the user's messages that fit `TARGET` beside the other text."""
    view, other_tokens = moment.view, int(sizes[~users].sum())
    positions = np.flatnonzero(users & (sizes > 0)).tolist()
    whole_users = {*_whole_users(moment)}
    shortened = {p: int(sizes[p]) for p in positions if p not in whole_users}
    room = int(TARGET * view.budget) - other_tokens - sum(int(sizes[p]) for p in whole_users)
    room = max(room, sum(min(size, LEAST_TOKENS) for size in shortened.values()))
    return excerpts_of(shortened, room, view.text_of, view.counter)


def _shorten_rest(moment: CallContext, sizes: Ints) -> dict[int, Substitute]:
    """Return the excerpts of the texts that leave the newest results too little."""
    view = moment.view
    room = int((1 - NEWEST_SHARE) * view.budget)
    if (total := int(sizes.sum())) <= room:
        return {}
    sizes = sizes.copy()
    sizes[_whole_users(moment)] = 0
    texts = {int(p): int(sizes[p]) for p in np.flatnonzero(sizes)}
    return excerpts_of(texts, room - total + sum(texts.values()), view.text_of, view.counter)


def _whole_users(moment: CallContext) -> list[int]:
    """Return the first message of the user and the newest ones, if they have at most `TARGET`."""
    users = [p for p in range(moment.messages) if moment.view.history.roles[p] == "user"]
    whole_users = [*users[:1], *users[1:][-NEWEST_USER:]]
    fits = int(moment.text_tokens[whole_users].sum()) <= TARGET * moment.view.budget
    return whole_users if fits else []


def _are_users(moment: CallContext) -> NDArray[np.bool_]:
    """Return, by message, whether it is not the assistant's."""
    roles = moment.view.history.roles[: moment.messages]
    return np.array([role != "assistant" for role in roles], np.bool_)


def _may_leave(moment: CallContext) -> NDArray[np.bool_]:
    """Return, by message, whether its text is charged and it is not the last assistant's."""
    may_leave = np.ones(moment.messages, np.bool_)
    may_leave[list(moment.outside)] = False
    if moment.last_assistant >= 0:
        may_leave[moment.last_assistant] = False
    return may_leave
