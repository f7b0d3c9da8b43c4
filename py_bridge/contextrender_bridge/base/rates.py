"""Rates: why a model call costs more or less than its model's standard price.

A usage's model has them in its name, such as `gpt-5.4 (priority, above 272K)`. Calls of one model
at two rates are therefore summed and priced apart, wherever usage is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_RATED = re.compile(r"(.+) \(([^()]+)\)")
_ABOVE = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
_ABOVE_RATE = re.compile(r"above (\d+)K")
STANDARD: Final = frozenset({"", "auto", "default", "none", "standard", "standard_only"})
COLUMNS: Final = {"priority": "_priority", "flex": "_flex", "batch": "_batches"}
"""Price columns of the table by service tier."""
PRICES: Final = (
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
    "cache_creation_input_token_cost_above_1hr",
)
FACTORS: Final = "rate_factors"
"""The table's factors for a model's fast mode and regions."""
SEARCHES: Final = "web search"
FAST: Final = "fast"
PRIORITY: Final = "priority"

Row = Mapping[str, Any]


def split_rates(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the model's own name and its rates."""
    match = _RATED.fullmatch(name)
    return (match[1], tuple(match[2].split(", "))) if match else (name, ())


def join_rates(model: str, rates: Iterable[str]) -> str:
    """Return the model's name with these rates."""
    rate_list = ", ".join(dict.fromkeys(filter(None, rates)))
    return f"{model} ({rate_list})" if rate_list and model else model


def usage_rates(usage_fields: Mapping[str, Any], row: Row) -> Iterator[str]:
    """Yield the rates that a `usage`, or what surrounds it, names. `row` has the model's prices."""
    tier = str(usage_fields.get("service_tier") or "").lower()
    is_fast = FAST in (tier, str(usage_fields.get("speed") or "").lower())
    if is_fast:
        yield FAST if FAST in row.get(FACTORS, {}) or not _has(row, PRIORITY) else PRIORITY
    elif tier not in STANDARD:
        yield tier
    region = str(usage_fields.get("inference_geo") or "").lower()
    if region in row.get(FACTORS, {}):
        yield region
    searches = usage_fields.get("server_tool_use")
    if isinstance(searches, Mapping) and searches.get("web_search_requests"):
        yield SEARCHES


def prompt_rate(row: Row, prompt: int) -> str:
    """Return the rate of a prompt with so many tokens; empty for the standard one."""
    steps = sorted(int(match[1]) for name in row if (match := _ABOVE.fullmatch(name)))
    passed = [step for step in steps if prompt > 1_000 * step]
    return f"above {passed[-1]}K" if passed else ""


def is_prompt_rate(rate: str) -> bool:
    """Return whether a rate depends on the prompt's length."""
    return _ABOVE_RATE.fullmatch(rate) is not None


def is_priced(row: Row, rate: str) -> bool:
    """Return whether the table has a price for the rate."""
    if above := _ABOVE_RATE.fullmatch(rate):
        return f"input_cost_per_token_above_{above[1]}k_tokens" in row
    return rate in row.get(FACTORS, {}) or _has(row, rate)


def at_rates(row: Row, rates: tuple[str, ...]) -> Row:
    """Return the row's prices at these rates; a rate without a price changes nothing."""
    above = next((match[1] for rate in rates if (match := _ABOVE_RATE.fullmatch(rate))), "")
    length = f"_above_{above}k_tokens" if above else ""
    tier = next((COLUMNS[rate] for rate in rates if rate in COLUMNS and _has(row, rate)), "")
    factor = 1.0
    for rate in rates:
        factor *= row.get(FACTORS, {}).get(rate, 1.0)
    uncached = _price_in(row, "input_cost_per_token", length, tier)
    scale = uncached / row["input_cost_per_token"]
    return {
        name: factor * _price_in(row, name, length, tier, scale) for name in PRICES if name in row
    }


def _price_in(row: Row, name: str, length: str, tier: str, scale: float = 1.0) -> float:
    """Return the price of `name` for a prompt's `length` in a `tier`.

    Where the table has no column for both, each changes the price by its own factor.
    """
    standard = float(row[name])
    columns = {name + length + tier: 1, name + length: 1, name + tier: 1}
    prices = [float(row[column]) for column in columns if column in row and column != name]
    if name + length + tier in row or len(prices) == 1:
        return prices[0] if prices else standard
    if len(prices) == 2:
        return prices[0] * prices[1] / standard
    return standard * scale


def _has(row: Row, tier: str) -> bool:
    return tier in COLUMNS and f"input_cost_per_token{COLUMNS[tier]}" in row
