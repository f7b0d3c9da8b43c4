"""Text under a cap: what leaves so that results have room (docs/policies.md, Text).

Whole turns leave, the oldest first, as when retained text exceeds the budget (plan.retained).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.plan.moment import Moment
from engine.plan.retained import Retained, cut_short

CAP: Final = 0.5
TARGET: Final = 0.3
TASK_SHARE: Final = 0.15


def turns_to_leave(moment: Moment) -> tuple[int, ...]:
    """The turns whose text leaves: none up to `CAP` of the budget, else until `TARGET` of it.

    The last turn never leaves, nor the first user message while it is at most `TASK_SHARE`.
    """
    budget, tokens = moment.view.budget, moment.text_tokens
    total = int(tokens.sum())
    if total <= CAP * budget:
        return ()
    movable = _movable(moment)
    turns = moment.message_turns[movable]
    sizes = np.bincount(turns, tokens[movable]) if len(turns) else np.zeros(0)
    left: list[int] = []
    for turn in np.flatnonzero(sizes).tolist():
        if total <= TARGET * budget:
            break
        total -= int(sizes[turn])
        left.append(turn)
    return tuple(left)


def text_without(moment: Moment, left: tuple[int, ...]) -> int:
    """Tokens of the text that stays when these turns leave."""
    return int(moment.text_tokens[~leaving(moment, left)].sum())


def retained_without(moment: Moment, left: tuple[int, ...]) -> Retained:
    """The text that stays when these turns leave, cut short as a last resort to fit the budget.

    `moment` must be the next invocation.
    """
    view = moment.view
    going = leaving(moment, left)
    total = int(moment.text_tokens[~going].sum())
    gone = frozenset(np.flatnonzero(going).tolist())
    excerpts: dict[int, str] = {}
    if total > view.budget:
        settled = moment.outside | gone
        total, excerpts = cut_short(view.history, view.budget, settled, view.text_of, view.counter)
    return Retained(total, moment.outside, moment.outside_tokens, left, gone, excerpts)


def _movable(moment: Moment) -> NDArray[np.bool_]:
    """Messages that may leave: those of earlier turns, and not a task that is short."""
    history = moment.view.history
    movable = moment.message_turns < moment.turn - 1
    movable[list(moment.outside)] = False
    task = history.first_user
    if 0 <= task < moment.messages:
        short = history.text_tokens[task] <= TASK_SHARE * moment.view.budget
        movable[task] &= not short
    return movable


def leaving(moment: Moment, left: tuple[int, ...]) -> NDArray[np.bool_]:
    """By message: whether it leaves with these turns."""
    if not left:
        return np.zeros(moment.messages, np.bool_)
    return _movable(moment) & np.isin(moment.message_turns, left)
