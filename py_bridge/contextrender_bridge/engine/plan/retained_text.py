"""The text in a prompt, by the method's rule.

User and assistant text has room before any result. If it exceeds the budget, the oldest turns are
dropped, but never the first user message nor the last turn (`docs/method.md`, Retained text).
"""

from collections.abc import Mapping
from typing import Final

from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.history.token_tracking import TextOf
from contextrender_bridge.engine.plan.selection import (
    Substitute,
    TextSelection,
    messages_before_budget,
)
from contextrender_bridge.engine.text.excerpt import excerpt
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD, TokenCounter

NO_SUBSTITUTE: Final = Substitute("", 0)


def retain_text(
    history: History, budget: int, text_of: TextOf, counter: TokenCounter
) -> TextSelection:
    """Return the text kept under `budget` tokens. `text_of(message)` reads a message's text."""
    outside = messages_before_budget(history, len(history))
    tokens = history.text_tokens
    total = sum(tokens) - sum(tokens[position] for position in outside)
    if total <= budget:
        return TextSelection()
    last_turn = history.assistants
    by_turn: dict[int, int] = {}
    for position, turn in enumerate(history.turns):
        if turn < last_turn and position not in outside and position != history.first_user:
            by_turn[turn] = by_turn.get(turn, 0) + tokens[position]
    dropped_turns: list[int] = []
    for turn in sorted(by_turn):
        if total <= budget:
            break
        total -= by_turn[turn]
        dropped_turns.append(turn)
    dropped_set = set(dropped_turns)
    dropped = [
        position
        for position, turn in enumerate(history.turns)
        if turn in dropped_set
        and position not in outside
        and position != history.first_user
        and history.result_at(position) < 0
    ]
    cut: dict[int, Substitute] = {}
    if total > budget:
        cut = cut_short(history, budget, outside | {*dropped}, text_of, counter)
    return TextSelection(tuple(dropped), cut, tuple(dropped_turns))


def cut_short(
    history: History, budget: int, excluded: frozenset[int], text_of: TextOf, counter: TokenCounter
) -> dict[int, Substitute]:
    """Return excerpts of the texts that are not `excluded`, so that together they fit.

    The smallest texts stay complete.
    """
    sizes = history.text_tokens
    to_cut = {p: sizes[p] for p in range(len(history.roles)) if p not in excluded and sizes[p]}
    return excerpts_of(to_cut, budget, text_of, counter)


def excerpts_of(
    sizes: Mapping[int, int], budget: int, text_of: TextOf, counter: TokenCounter
) -> dict[int, Substitute]:
    """Return excerpts of the texts that are above their share of the budget.

    `sizes` has the tokens of each text, by position. Smaller texts leave their share to larger
    ones.
    """
    excerpts: dict[int, Substitute] = {}
    free = budget
    for rank, position in enumerate(sorted(sizes, key=lambda p: (sizes[p], -p))):
        share = free // (len(sizes) - rank)
        tokens = sizes[position]
        if tokens > share:
            text = excerpt(text_of(position), share - MESSAGE_OVERHEAD, counter)
            excerpts[position] = to_substitute(text, counter)
            tokens = excerpts[position].tokens
        free -= tokens
    return excerpts


def to_substitute(text: str, counter: TokenCounter) -> Substitute:
    """Return the substitute with a text. An empty one has no tokens, as it has no message."""
    return Substitute(text, counter.text(text) + MESSAGE_OVERHEAD) if text else NO_SUBSTITUTE
