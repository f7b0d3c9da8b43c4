"""Retained text: user and assistant text is charged before any result.

When it alone exceeds the budget, whole oldest turns leave first, never the first user message nor
the last turn (`docs/method.md`, Retained text).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from engine.history.history import History
from engine.text.excerpt import excerpt
from engine.text.tokens import MESSAGE_OVERHEAD, TokenCounter

TextOf = Callable[[int], str]


@dataclass(slots=True, frozen=True)
class Retained:
    """What stays of the text: `tokens` inside the budget, what left, and what is cut short.

    `outside` are the positions never charged: the system prompt and the current user message.
    `left_turns` are the turns that left whole; `left_messages` every message whose text left, with
    its turn or alone; `excerpts` the texts cut short because nothing else could leave.
    """

    tokens: int
    outside: frozenset[int]
    outside_tokens: int
    left_turns: tuple[int, ...] = ()
    left_messages: frozenset[int] = frozenset()
    excerpts: dict[int, str] = field(default_factory=dict)


def retain_text(history: History, budget: int, text_of: TextOf, counter: TokenCounter) -> Retained:
    """The text kept under `budget` tokens. `text_of(message)` reads a message's text."""
    outside = frozenset([*range(history.leading_system), history.last_user]) - {-1}
    tokens = history.text_tokens
    outside_tokens = sum(tokens[position] for position in outside)
    total = sum(tokens) - outside_tokens
    if total <= budget:
        return Retained(total, outside, outside_tokens)
    last_turn = history.assistants
    by_turn: dict[int, int] = {}
    for position, turn in enumerate(history.turns):
        if turn < last_turn and position not in outside and position != history.first_user:
            by_turn[turn] = by_turn.get(turn, 0) + tokens[position]
    left: list[int] = []
    for turn in sorted(by_turn):
        if total <= budget:
            break
        total -= by_turn[turn]
        left.append(turn)
    leaving = set(left)
    gone = frozenset(
        position
        for position, turn in enumerate(history.turns)
        if turn in leaving and position not in outside and position != history.first_user
    )
    excerpts: dict[int, str] = {}
    if total > budget:
        total, excerpts = cut_short(history, budget, outside | gone, text_of, counter)
    return Retained(total, outside, outside_tokens, tuple(left), gone, excerpts)


def cut_short(
    history: History, budget: int, settled: frozenset[int], text_of: TextOf, counter: TokenCounter
) -> tuple[int, dict[int, str]]:
    """Excerpts of the texts that may not leave, so that together they fit; smallest keep whole."""
    sizes = history.text_tokens
    staying = {p: sizes[p] for p in range(len(history)) if p not in settled and sizes[p]}
    return excerpts_of(staying, budget, text_of, counter)


def excerpts_of(
    sizes: Mapping[int, int], budget: int, text_of: TextOf, counter: TokenCounter
) -> tuple[int, dict[int, str]]:
    """What the texts of these sizes take together, and excerpts of those above their share."""
    excerpts: dict[int, str] = {}
    free = budget
    for rank, position in enumerate(sorted(sizes, key=lambda p: (sizes[p], -p))):
        share = free // (len(sizes) - rank)
        used = sizes[position]
        if used > share:
            excerpts[position] = excerpt(text_of(position), share - MESSAGE_OVERHEAD, counter)
            used = counter.text(excerpts[position]) + MESSAGE_OVERHEAD if excerpts[position] else 0
        free -= used
    return budget - free, excerpts
