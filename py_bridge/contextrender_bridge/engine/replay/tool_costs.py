"""The cost of each tool's results and of its declaration in every request, and advice on tools."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from contextrender_bridge.base.prices import Price

FLOOD_TOKENS: Final = 4_000
"""An unused result with more tokens is a flood."""
MAX_NAMES: Final = 3
"""The largest number of tools that a sentence of the advice names."""
MAX_NAME_LENGTH: Final = 40
SUMMED_COUNTS: Final = (
    *("results", "tokens", "reused", "declared", "unused_tokens", "excess_tokens"),
)
SUMMED_COSTS: Final = ("dollars", "declared_dollars", "excess_dollars")


@dataclass(slots=True)
class ToolCost:
    """The results and the declaration of one tool, with their tokens and costs.

    - `results` counts the results. `tokens` are the tokens of all results, and `dollars` is the
      cost of these tokens in the full history.
    - `reused` counts the results that a later answer used. `unused_tokens` are the tokens of the
      other results. `excess_tokens` are the part of `unused_tokens` beyond the first `FLOOD_TOKENS`
      tokens of each result, and `excess_dollars` is the cost of this part.
    - `declared` are the tokens of the declaration, and `declared_dollars` is its cost.
    - The largest result has `largest` tokens, and is of turn `largest_turn` of the session
      `largest_session`.

    Costs are None without a price.
    """

    name: str
    results: int = 0
    tokens: int = 0
    reused: int = 0
    declared: int = 0
    unused_tokens: int = 0
    largest: int = 0
    largest_turn: int = 0
    largest_session: str = ""
    dollars: float | None = None
    declared_dollars: float | None = None
    excess_tokens: int = 0
    excess_dollars: float | None = None

    @property
    def cost(self) -> float:
        """The dollars of the results and the declaration, as far as they are known."""
        return (self.dollars or 0.0) + (self.declared_dollars or 0.0)

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
        """Add the cost of a result that is in the prompts of `calls` consecutive calls."""
        self.dollars = (self.dollars or 0.0) + _cached_cost(tokens, calls, price)
        excess = tokens - FLOOD_TOKENS
        if excess > 0 and not is_used:
            excess_cost = _cached_cost(excess, calls, price)
            self.excess_dollars = (self.excess_dollars or 0.0) + excess_cost

    def add(self, other: ToolCost) -> None:
        """Add the results and costs of the same tool in another session."""
        for name in SUMMED_COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in SUMMED_COSTS:
            if (cost := getattr(other, name)) is not None:
                setattr(self, name, (getattr(self, name) or 0.0) + cost)
        if other.largest > self.largest:
            self.largest, self.largest_turn = other.largest, other.largest_turn
            self.largest_session = other.largest_session


def sum_costs(sessions: Iterable[Iterable[ToolCost]]) -> list[ToolCost]:
    """Return the sum of each tool's costs over the sessions, the most expensive tool first."""
    sums: dict[str, ToolCost] = {}
    for tool in chain.from_iterable(sessions):
        sums.setdefault(tool.name, ToolCost(tool.name)).add(tool)
    return sorted(sums.values(), key=lambda tool: (tool.cost, tool.tokens), reverse=True)


def advise_on_tools(tools: Sequence[ToolCost]) -> list[str]:
    """Return the advice in sentences: on large results, unused results, and tools never called.

    The first sentence names the tool with the most excess tokens. Each sentence is left out if it
    does not apply. If none applies, return a sentence that says so.
    """
    sentences = []
    # A tool floods prompts if it has unused results above `FLOOD_TOKENS`.
    flooding_tools = [tool for tool in tools if tool.excess_tokens]
    if flooding_tools:
        worst_tool = max(flooding_tools, key=lambda tool: tool.excess_tokens)
        sentences.append(_flood_sentence(worst_tool))
    # Tools that every request declares and that have no result.
    never_called = [tool for tool in tools if tool.declared and not tool.results]
    if never_called:
        tokens = sum(tool.declared for tool in never_called)
        sentences.append(
            f"Never called: {_names_of(never_called)}; their declarations are {tokens:,} tokens of "
            f"every request{_about_dollars(sum(tool.cost for tool in never_called))}. "
            "Switch them off in the agent."
        )
    never_used = [tool for tool in tools if tool.results and not tool.reused]
    if never_used:
        tokens = sum(tool.tokens for tool in never_used)
        sentences.append(
            f"No answer used a result of {_names_of(never_used)}: {tokens:,} tokens"
            f"{_about_dollars(sum(tool.dollars or 0.0 for tool in never_used))}."
        )
    if sentences:
        return sentences
    is_declared = any(tool.declared for tool in tools)
    return ["No tool floods" + (", and every declared one was called." if is_declared else ".")]


def _names_of(tools: Sequence[ToolCost]) -> str:
    """Return the names of the first tools, and how many there are besides."""
    names = ", ".join(_short_name(tool.name) for tool in tools[:MAX_NAMES])
    hidden_count = len(tools) - MAX_NAMES
    return names + (f" and {hidden_count} more" if hidden_count > 0 else "")


def _flood_sentence(tool: ToolCost) -> str:
    """Return the cost of a tool's unused results, and an instruction to avoid such results."""
    name = _short_name(tool.name)
    return (
        f"{name} floods: {tool.unused_tokens:,} of its {tool.tokens:,} tokens were never used"
        f"{_about_dollars((tool.dollars or 0.0) * tool.unused_tokens / tool.tokens)}; its largest "
        f"result has {tool.largest:,} (`contextrender show {tool.largest_session} --turn "
        f"{tool.largest_turn}`). Add to the agent's instructions: \"Ask {name} for at most "
        f'{FLOOD_TOKENS:,} tokens at a time." It would have saved {tool.excess_tokens:,} tokens '
        f"that nothing used{_about_dollars(tool.excess_dollars or 0.0)}."
    )


def _short_name(name: str) -> str:
    """Return a tool's name, cut to `MAX_NAME_LENGTH` characters."""
    return name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…"


def _about_dollars(amount: float) -> str:
    """Return an amount of dollars as the end of a sentence, or "" for 0."""
    return f", about {dollar_text(amount)}" if amount else ""


def dollar_text(amount: float) -> str:
    """Return an amount of dollars with two decimal places, or with four if it is below 1."""
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def tool_costs(
    session: str,
    results: Iterable[tuple[str, int, int]],
    used_results: Collection[int],
    declared: Mapping[str, int],
    calls: int,
    price: Price | None,
) -> list[ToolCost]:
    """Return the cost of each tool of a session, in the order of their first results.

    `results` has the tool's name, the tokens and the turn of each result. `used_results` has the
    numbers of the results that later answers used. `declared` maps each declared tool's name to the
    tokens of its declaration, which is in every request. `calls` is the number of the session's
    calls. Without a price, costs are None.
    """
    tools: dict[str, ToolCost] = {}
    # The cost of the results.
    for number, (name, tokens, turn) in enumerate(results):
        tool = tools.setdefault(name, ToolCost(name, largest_session=session))
        is_used = number in used_results
        tool.add_result(tokens, turn, is_used=is_used)
        if price is not None:
            later_calls = calls - turn  # the prompts of these calls have the result
            tool.add_cost(tokens, later_calls, price, is_used=is_used)
    # The cost of the declarations.
    for name, tokens in declared.items():
        tool = tools.setdefault(name, ToolCost(name, largest_session=session))
        tool.declared = tokens
        if price is not None:
            tool.declared_dollars = _cached_cost(tokens, calls, price)
    return list(tools.values())


def _cached_cost(tokens: int, calls: int, price: Price) -> float:
    """Return the cost of tokens in the prompts of consecutive calls.

    They are written to the provider's cache once, and read from it at every later call.
    """
    if calls <= 0:
        return 0.0
    return tokens * (price.cache_write + price.cache_read * (calls - 1))
