"""Simple rules: the newest results within the budget, and opencode's pruning."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from contextrender_bridge.engine.text.tokens import counter_for

Json = dict[str, Any]

OMITTED = "[Result omitted]"
CLEARED = "[Old tool result content cleared]"
PROTECTED_TOKENS = 40_000
"""opencode's pruning keeps this many tokens of the newest results."""
LEAST_PRUNED_TOKENS = 20_000
"""opencode's pruning does nothing if it would clear fewer tokens."""
PROTECTED_TURNS = 2
"""opencode's pruning keeps the results of this many newest user turns."""
CHARS_PER_TOKEN = 4


def make(variant: str) -> Callable[[Sequence[Json], int], list[Json]]:
    return {"newest": _newest_results, "opencode": _opencode_pruning}[variant]


def _newest_results(messages: Sequence[Json], tokens: int) -> list[Json]:
    """Return the messages, with a note instead of the oldest results until the rest fits."""
    counter = counter_for(None)
    shortened = list(messages)
    total = sum(map(counter.message, messages))
    for position, message in enumerate(messages):
        if total <= tokens:
            break
        if message["role"] == "tool":
            shortened[position] = {**message, "content": OMITTED}
            total -= counter.message(message) - counter.message(shortened[position])
    return shortened


def _opencode_pruning(messages: Sequence[Json], _: int) -> list[Json]:
    """Return the messages as opencode 1 sends them. It prunes at the end of each user turn."""
    cleared: set[int] = set()
    turn_ends = [at for at, message in enumerate(messages) if at and message["role"] == "user"]
    for end in turn_ends:
        cleared |= _select_to_clear(messages[:end], cleared)
    return [
        {**message, "content": CLEARED} if position in cleared else message
        for position, message in enumerate(messages)
    ]


def _select_to_clear(messages: Sequence[Json], cleared: set[int]) -> set[int]:
    """Return the positions of the results that are cleared now, besides those cleared before."""
    turns = result_tokens = 0
    size_by_position: dict[int, int] = {}
    for position in reversed(range(len(messages))):
        message = messages[position]
        turns += message["role"] == "user"
        if turns < PROTECTED_TURNS or message["role"] != "tool":
            continue
        if position in cleared:
            break
        size = len(_text(message)) // CHARS_PER_TOKEN
        result_tokens += size
        if result_tokens > PROTECTED_TOKENS:
            size_by_position[position] = size
    is_worth_it = sum(size_by_position.values()) > LEAST_PRUNED_TOKENS
    return set(size_by_position) if is_worth_it else set()


def _text(message: Json) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else json.dumps(content)
