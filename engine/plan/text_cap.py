"""Caps retained text, so that results have room (docs/policies.md, Text).

Message by message, the oldest first. Results do not leave with the text of their turn.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.history.frozen import ALL_TEXT, KeptText, Replacement
from engine.plan.moment import Ints, Moment
from engine.plan.plan import Retained, excerpts_of
from engine.text.tokens import MESSAGE_OVERHEAD

CAP: Final = 0.5
TARGET: Final = 0.3
TASK_SHARE: Final = 0.15
NEWEST_SHARE: Final = 0.25
"""The share of the budget kept for the newest results beside text that may not leave."""


def sizes_of(text: KeptText, moment: Moment) -> Ints:
    """Tokens of each message's text that stays and that the budget charges."""
    sizes = moment.text_tokens.copy()
    sizes[list(text.left)] = 0
    for position, made in text.cut.items():
        sizes[position] = 0 if position in moment.outside else made.tokens
    return sizes


def gone_from(text: KeptText, moment: Moment) -> NDArray[np.bool_]:
    """By message: whether its text is not there as it was."""
    gone = np.zeros(moment.messages, np.bool_)
    gone[[*text.left, *text.cut]] = True
    return gone


def text_at(moment: Moment, before: KeptText = ALL_TEXT) -> KeptText:
    """The text that stays: as before up to `CAP` of the budget, else until `TARGET` of it is left.

    The last assistant message never leaves, nor the first user message while it is at most
    `TASK_SHARE`. Where that leaves the newest results less than `NEWEST_SHARE`, it is cut.
    """
    budget, sizes = moment.view.budget, sizes_of(before, moment)
    total = int(sizes.sum())
    if total <= CAP * budget:
        return before
    left = list(before.left)
    cut = dict(before.cut)
    for position in np.flatnonzero(_movable(moment) & (sizes > 0)).tolist():
        if total <= TARGET * budget:
            break
        total -= int(sizes[position])
        sizes[position] = 0
        cut.pop(position, None)
        left.append(position)
    if total > (1 - NEWEST_SHARE) * budget:
        cut |= _cut_short(moment, sizes)
    return KeptText(tuple(sorted(left)), cut)


def retained_with(moment: Moment, text: KeptText) -> Retained:
    """That text as a plan has it."""
    excerpts = {position: made.text for position, made in text.cut.items()}
    return Retained(
        int(sizes_of(text, moment).sum()),
        moment.outside,
        moment.outside_tokens,
        left_messages=frozenset(text.left),
        excerpts={p: made for p, made in excerpts.items() if p not in moment.outside},
    )


def _cut_short(moment: Moment, sizes: Ints) -> dict[int, Replacement]:
    """Excerpts of what may not leave, the task excepted, which is short."""
    view, task = moment.view, moment.view.history.first_user
    staying = {int(p): int(sizes[p]) for p in np.flatnonzero(sizes) if p != task}
    room = int((1 - NEWEST_SHARE) * view.budget) - int(sizes.sum()) + sum(staying.values())
    _, texts = excerpts_of(staying, room, view.text_of, view.counter)
    return {position: _replacement(moment, text) for position, text in texts.items()}


def _replacement(moment: Moment, text: str) -> Replacement:
    tokens = moment.view.counter.text(text) + MESSAGE_OVERHEAD if text else 0
    return Replacement(text, tokens)


def _movable(moment: Moment) -> NDArray[np.bool_]:
    """Messages whose text may leave: all charged ones but the last assistant's and a short task."""
    movable = np.ones(moment.messages, np.bool_)
    movable[list(moment.outside)] = False
    if moment.last_assistant >= 0:
        movable[moment.last_assistant] = False
    task = moment.view.history.first_user
    if 0 <= task < moment.messages:
        short = moment.view.history.text_tokens[task] <= TASK_SHARE * moment.view.budget
        movable[task] &= not short
    return movable
