"""What each tool of a session costs: its results, and its declaration in every request."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from contextrender_bridge.base.prices import Price


@dataclass(slots=True)
class ToolCost:
    """One tool's `results` and their `tokens`, of which `unused_tokens` no later answer used.

    `dollars` are those of its results in the full history, `declared_dollars` those of its
    declaration: written to the provider's cache once, and read at every later call. They are None
    without a price. The `largest` result came at `largest_turn`.
    """

    name: str
    results: int = 0
    tokens: int = 0
    reused: int = 0
    declared: int = 0
    unused_tokens: int = 0
    largest: int = 0
    largest_turn: int = 0
    dollars: float | None = None
    declared_dollars: float | None = None


def tool_costs(
    results: Iterable[tuple[str, int, int]],
    used: Collection[int],
    declared: Mapping[str, int],
    calls: int,
    price: Price | None,
) -> list[ToolCost]:
    """Return the cost of each tool, those called first. `results` are name, tokens and turn."""
    found: dict[str, ToolCost] = {}
    for number, (name, tokens, turn) in enumerate(results):
        tool = found.setdefault(name, ToolCost(name))
        tool.results += 1
        tool.tokens += tokens
        if number in used:
            tool.reused += 1
        else:
            tool.unused_tokens += tokens
        if tokens > tool.largest:
            tool.largest, tool.largest_turn = tokens, turn
        if price is not None:
            tool.dollars = (tool.dollars or 0.0) + _held(tokens, calls - turn, price)
    for name, tokens in declared.items():
        tool = found.setdefault(name, ToolCost(name))
        tool.declared = tokens
        if price is not None:
            tool.declared_dollars = _held(tokens, calls, price)
    return list(found.values())


def _held(tokens: int, calls: int, price: Price) -> float:
    """Return what tokens cost that are in the prompts of so many calls, one after the other."""
    return tokens * (price.cache_write + price.cache_read * (calls - 1)) if calls > 0 else 0.0
