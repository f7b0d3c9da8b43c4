"""The cost of each tool of a session: of its results, and of its declaration in every request."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from contextrender_bridge.base.prices import Price

FLOOD_TOKENS: Final = 4_000
"""The number of tokens from which a result counts as a flood."""


@dataclass(slots=True)
class ToolCost:
    """The results and the declaration of one tool, with their tokens and costs.

    `tokens` counts all `results`. `reused` results were used by a later answer; the others have
    `unused_tokens`. `declared` is the tokens of the declaration. `dollars` is the cost of the
    results in the full history, `declared_dollars` the cost of the declaration; both are None
    without a price. The result with the most tokens, `largest`, is of turn `largest_turn`.
    `excess_tokens` are the tokens beyond `FLOOD_TOKENS` of the unused results, `excess_dollars`
    their cost.
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
    excess_tokens: int = 0
    excess_dollars: float | None = None

    def add_result(self, tokens: int, turn: int, *, is_used: bool) -> None:
        """Count a result with its tokens, without its costs."""
        self.results += 1
        self.tokens += tokens
        if tokens > self.largest:
            self.largest, self.largest_turn = tokens, turn
        if is_used:
            self.reused += 1
        else:
            self.unused_tokens += tokens
            self.excess_tokens += max(0, tokens - FLOOD_TOKENS)

    def add_cost(self, tokens: int, calls: int, price: Price, *, is_used: bool) -> None:
        """Add the cost of a result, which the prompts of `calls` consecutive calls have."""
        self.dollars = (self.dollars or 0.0) + _cached_cost(tokens, calls, price)
        excess = tokens - FLOOD_TOKENS
        if excess > 0 and not is_used:
            excess_cost = _cached_cost(excess, calls, price)
            self.excess_dollars = (self.excess_dollars or 0.0) + excess_cost


def tool_costs(
    results: Iterable[tuple[str, int, int]],
    used_results: Collection[int],
    declared: Mapping[str, int],
    calls: int,
    price: Price | None,
) -> list[ToolCost]:
    """Return the cost of each tool, in the order of their first results.

    `results` has the tool's name, the tokens and the turn of each result. `used_results` are the
    numbers of the results that later answers used. `declared` has the tokens of each declaration,
    and `calls` is the number of the session's calls.
    """
    tools: dict[str, ToolCost] = {}
    for number, (name, tokens, turn) in enumerate(results):
        tool = tools.setdefault(name, ToolCost(name))
        is_used = number in used_results
        tool.add_result(tokens, turn, is_used=is_used)
        if price is not None:
            tool.add_cost(tokens, calls - turn, price, is_used=is_used)
    for name, tokens in declared.items():
        tool = tools.setdefault(name, ToolCost(name))
        tool.declared = tokens
        if price is not None:
            tool.declared_dollars = _cached_cost(tokens, calls, price)
    return list(tools.values())


def _cached_cost(tokens: int, calls: int, price: Price) -> float:
    """Return the cost of tokens in the prompts of consecutive calls.

    They are written to the provider's cache once, and read from it at every later call.
    """
    return tokens * (price.cache_write + price.cache_read * (calls - 1)) if calls > 0 else 0.0
