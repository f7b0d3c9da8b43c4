"""The text in a prompt, by the method's rule.

User and assistant text comes before any result. If it exceeds the budget, the oldest turns are
dropped, but never the first user message nor the last turn (`docs/method.md`, Retained text).
"""

from collections.abc import Collection, Mapping
from typing import Final

from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.history.token_tracking import TextOf
from contextrender_bridge.engine.plan.selection import (
    Substitute,
    TextSelection,
    unbudgeted_messages,
)
from contextrender_bridge.engine.text.excerpt import excerpt
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD, TokenCounter

NO_SUBSTITUTE: Final = Substitute("", 0)
"""The substitute of a message that is shown without text, for its calls alone."""


def retain_text(
    history: History, budget: int, text_of: TextOf, counter: TokenCounter
) -> TextSelection:
    """Return the text of a prompt within `budget` tokens (docs/method.md, Retained text).

    Drop whole turns, the oldest first, until the text fits. The first user message and the last
    turn are never dropped. If they alone exceed the budget, cut them. `text_of(message)` reads the
    text of a message.
    """
    # The system prompt and the current user message are always shown, and use no budget.
    unbudgeted = unbudgeted_messages(history, len(history))
    tokens = history.text_tokens  # 0 for results
    total = sum(tokens) - sum(tokens[position] for position in unbudgeted)
    if total <= budget:
        return TextSelection()
    # Drop turns. `dropped` has the positions of texts only; results are dropped with their turn.
    dropped: list[int] = []
    dropped_turns: list[int] = []
    for turn, positions in sorted(_droppable_by_turn(history, unbudgeted).items()):
        if total <= budget:
            break
        total -= sum(tokens[position] for position in positions)
        dropped += [position for position in positions if not history.is_result(position)]
        dropped_turns.append(turn)
    # If all droppable turns are dropped and the text is still too large, cut the remaining texts.
    cut: dict[int, Substitute] = {}
    if total > budget:
        not_to_cut = unbudgeted.union(dropped)
        sizes = {p: size for p, size in enumerate(tokens) if size and p not in not_to_cut}
        cut = excerpts_of(sizes, budget, text_of, counter)
    return TextSelection(tuple(sorted(dropped)), cut, tuple(dropped_turns))


def _droppable_by_turn(history: History, unbudgeted: Collection[int]) -> dict[int, list[int]]:
    """Return the positions of the messages that may be dropped, by their turn."""
    by_turn: dict[int, list[int]] = {}
    last_turn = history.assistants  # the turn of the last assistant message
    for position, turn in enumerate(history.turns):
        if turn < last_turn and position not in unbudgeted and position != history.first_user:
            by_turn.setdefault(turn, []).append(position)
    return by_turn


def excerpts_of(
    sizes: Mapping[int, int], budget: int, text_of: TextOf, counter: TokenCounter
) -> dict[int, Substitute]:
    """Cut the largest of these texts, so that all texts together fit the budget.

    `sizes` maps the position of each text to its tokens. Return the excerpts of the cut texts by
    position. All texts have equal shares of the budget. What a small text does not use is shared by
    the larger texts.
    """
    # The smallest texts come first, so that the tokens they do not use are known.
    excerpts: dict[int, Substitute] = {}
    remaining_tokens = budget
    smallest_first = sorted(sizes, key=lambda position: (sizes[position], -position))
    for index, position in enumerate(smallest_first):
        share = remaining_tokens // (len(sizes) - index)
        tokens = sizes[position]
        if tokens > share:
            text = excerpt(text_of(position), share - MESSAGE_OVERHEAD, counter)
            excerpts[position] = to_substitute(text, counter)
            tokens = excerpts[position].tokens
        remaining_tokens -= tokens
    return excerpts


def to_substitute(text: str, counter: TokenCounter) -> Substitute:
    """Return a substitute with this text. An empty text has no message, so it costs no tokens."""
    return Substitute(text, counter.text(text) + MESSAGE_OVERHEAD) if text else NO_SUBSTITUTE
