"""Prices and windows of models by name, and the rates of calls, from LiteLLM's table.

Long because the rates of a call are columns of a model's row.

A model that is not in the table has the row of the newest model of its family. For example, without
a row of its own, `claude-opus-4-8` has the row of `claude-opus-4-6`. The names of a family differ
only in numbers and dates.

Rates are reasons why a model call costs more or less than its model's standard price.
`Usage.model` has the rates after the model's name, such as `gpt-5.4 (priority, above 272K)`. Calls
of one model at different rates are therefore summed and priced separately.

The table has price columns for thresholds of the prompt's length (`above 272K`) and for service
tiers (`priority`). For the fast mode and for regions it has a factor for all prices. The provider's
own tools cost extra for each use (`2 web searches`); the table has prices of web searches.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import prod
from typing import Any, Final

from contextrender_bridge.base.shipped import prices

_DATE = re.compile(r"[-@]\d{4}-?\d{2}-?\d{2}$|\[\w+\]$")
"""A date at the end of a name, or a variant such as `[1m]`."""
_WORD_AND_NUMBER = re.compile(r"([a-z]*)(\d{1,3})")
_RESELLER = re.compile(r"(?:[a-z]+\.)*(?=[a-z])")
"""The prefix of Bedrock's models, such as `us.anthropic.`. Bedrock sells them at its own prices, so
they are a separate family."""
_STAGES = frozenset({"beta", "exp", "latest", "preview"})

_NAME_AND_RATES = re.compile(r"(.+) \(([^()]+)\)")
_LENGTH_COLUMN = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
_LENGTH_RATE = re.compile(r"above (\d+)K")
STANDARD_TIERS: Final = frozenset({"", "auto", "default", "none", "standard", "standard_only"})
TIER_SUFFIXES: Final = {"priority": "_priority", "flex": "_flex", "batch": "_batches"}
"""The suffixes of a service tier's price columns in the table."""
INPUT_PRICE: Final = "input_cost_per_token"
PRICES: Final = (
    INPUT_PRICE,
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
    "cache_creation_input_token_cost_above_1hr",
)
FACTORS: Final = "rate_factors"
"""The table's column with a model's factors for its fast mode and regions."""
SEARCH_PRICES: Final = "search_prices"
"""The table's column with the dollars of a web search, by the size of the context that it adds."""
_SEARCH_RATE = re.compile(r"(\d+) (?:(low|medium|high) )?web search(?:es)?")
_ALWAYS_SEARCHES = re.compile(r"-search-|(?:^|/)sonar(?!-deep)")
"""Matches the names of models that search in every call, and report no count of searches."""
TOOL_ITEMS: Final = "tool_items"
"""The field of a usage record in which the counts of the provider's own tool calls are added."""
SEARCH_ITEM: Final = "web_search_call"
OTHER_TOOLS: Final = {
    "file_search_call": "file search",
    "code_interpreter_call": "code interpreter",
}
"""The rates of other tools that cost extra, by the type of their items in an answer."""
_SEARCH_COUNTS: Final = (
    ("server_tool_use", "web_search_requests"),
    ("server_side_tool_usage_details", "web_search_calls"),
    (TOOL_ITEMS, SEARCH_ITEM),
)
"""The fields of a usage record with counts of searches (Anthropic, OpenRouter, xAI, OpenAI)."""
FAST: Final = "fast"
PRIORITY: Final = "priority"

Family = tuple[str, ...]
Version = tuple[int, ...]
Row = Mapping[str, Any]


@cache
def name_in_table(model: str) -> str | None:
    """Return the name of the table's row for a model, None if there is none.

    Look for a row of the model's own name, also without its provider and its date. If there is
    none, take the row of the newest model of its family.
    """
    table = prices()
    model, _ = split_rates(model)
    without_provider = model.rpartition("/")[2]
    names = (model, without_provider, _DATE.sub("", model), _DATE.sub("", without_provider))
    for name in names:
        if name and name in table:
            return name
    family, version = _family_and_version(without_provider)
    if not (family and version):
        return None
    return _newest_by_family().get(family)


def is_listed(model: str) -> bool:
    """Return whether the table has the model itself, not only another model of its family.

    The names may differ in the provider and the date.
    """
    listed_name = name_in_table(model)
    model, _ = split_rates(model)
    # Use `in`, because the model's name may have a provider before the listed name.
    return listed_name is not None and _DATE.sub("", listed_name) in _DATE.sub("", model)


def add_rates(model: str, prompt: int, usage_fields: Mapping[str, Any] | None = None) -> str:
    """Return the model's name with the rates of a call in parentheses.

    `prompt` is the number of the prompt's tokens. Add the rates that the provider's usage record
    `usage_fields` names to the rates that `model` has already. Replace the rate for the prompt's
    length.
    """
    name, rates = split_rates(model)
    row = model_row(name) or {}
    other_rates = [rate for rate in rates if not is_prompt_rate(rate)]
    new_rates = usage_rates(name, usage_fields or {}, row)
    return join_rates(name, (*other_rates, *new_rates, prompt_rate(row, prompt)))


def model_row(model: str) -> Row | None:
    """Return a model's row, with its dollars per token and its window; None if there is none."""
    name = name_in_table(model)
    return prices()[name] if name else None


@cache
def window_of(model: str) -> int | None:
    """Return the largest number of tokens in a model's prompt; None if that is unknown."""
    row = model_row(model) or {}
    return int(row.get("max_input_tokens", 0)) or None


@cache
def _newest_by_family() -> dict[Family, str]:
    """Return a dictionary that maps each family to the name of its newest model.

    Ignore names with a provider (`provider/model`).
    """
    newest: dict[Family, tuple[Version, int, str]] = {}
    for name in prices():
        if "/" in name:
            continue
        family, version = _family_and_version(name)
        # Of several names with the same version, take the shortest: variants have a suffix.
        candidate = (version, -len(name), name)
        if family not in newest or candidate[:2] > newest[family][:2]:
            newest[family] = candidate
    return {family: name for family, (_, _, name) in newest.items()}


def _family_and_version(name: str) -> tuple[Family, Version]:
    """Return the words and the numbers of a model's name, without its dates and stage.

    The first word is the prefix of a reseller's name for the model, empty without one. For example,
    `us.anthropic.claude-opus-4-6` has the words `us.anthropic.`, `claude` and `opus`, and the
    numbers 4 and 6.
    """
    name = _DATE.sub("", _DATE.sub("", name.lower()))  # a name may have two dates
    reseller = match[0] if (match := _RESELLER.match(name)) else ""
    words, numbers = [reseller], []
    for part in re.split(r"[-_.:@ ]", name[len(reseller) :]):
        word = part
        if match := _WORD_AND_NUMBER.fullmatch(part):
            word = match[1]
            numbers.append(int(match[2]))
        if word and word not in _STAGES:
            words.append(word)
    return tuple(words), tuple(numbers)


def split_rates(name: str) -> tuple[str, tuple[str, ...]]:
    """Divide a name such as `gpt-5.4 (priority, above 272K)` into the model's name and its rates.

    A name without rates gives an empty tuple.
    """
    match = _NAME_AND_RATES.fullmatch(name)
    if match is None:
        return name, ()
    return match[1], tuple(match[2].split(", "))


def join_rates(model: str, rates: Iterable[str]) -> str:
    """Return the model's name followed by these rates, each once. Empty rates are ignored."""
    rate_list = ", ".join(dict.fromkeys(filter(None, rates)))
    return f"{model} ({rate_list})" if rate_list and model else model


def usage_rates(model: str, usage_fields: Mapping[str, Any], row: Row) -> Iterator[str]:
    """Yield the rates of a call that the provider's usage record names.

    `row` is the model's row in the price table.
    """
    # The speed or the service tier.
    factors = row.get(FACTORS, {})
    tier = str(usage_fields.get("service_tier") or "").lower()
    speed = str(usage_fields.get("speed") or "").lower()
    if FAST in (tier, speed):
        # Without a factor of its own, a fast call has the price of the priority tier.
        is_priority = FAST not in factors and _has_tier(row, PRIORITY)
        yield PRIORITY if is_priority else FAST
    elif tier not in STANDARD_TIERS:
        yield tier
    # The region counts only if the table has a factor for it.
    region = str(usage_fields.get("inference_geo") or "").lower()
    if region in factors:
        yield region
    yield from _tool_rates(model, usage_fields)


def _tool_rates(model: str, usage_fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the rates of the provider's own tools that a call used, if these cost extra.

    A rate of web searches has their number, as in `2 web searches`.
    """
    searches = _search_count(model, usage_fields)
    if searches > 0:
        size = usage_fields.get("search_context_size")
        size_word = f"{size} " if size in ("low", "medium", "high") else ""
        yield f"{searches} {size_word}web search{'' if searches == 1 else 'es'}"
    if usage_fields.get("num_sources_used"):
        yield "live search"  # xAI charges for each source.
    items = usage_fields.get(TOOL_ITEMS) or {}
    yield from (rate for item, rate in OTHER_TOOLS.items() if items.get(item))
    # Anthropic bills its own compactions and an advisor's answers beside the counts of the call. It
    # lists them in `iterations`, where `message` is the call itself.
    iterations = usage_fields.get("iterations")
    for iteration in iterations if isinstance(iterations, list) else ():
        kind = iteration.get("type") if isinstance(iteration, Mapping) else None
        if isinstance(kind, str) and kind != "message":
            yield kind.removesuffix("_message").replace("_", " ")


def _search_count(model: str, usage_fields: Mapping[str, Any]) -> int:
    """Return the number of web searches of a call, by the provider's usage record."""
    if _ALWAYS_SEARCHES.search(model):
        return 1
    counts = []
    for field, name in _SEARCH_COUNTS:
        inner = usage_fields.get(field)
        if isinstance(inner, Mapping):
            counts.append(inner.get(name))
    if queries := usage_fields.get("num_search_queries"):  # Perplexity's deep research
        counts = [queries]
    return max((count for count in counts if isinstance(count, int)), default=0)


def prompt_rate(row: Row, prompt: int) -> str:
    """Return the rate of a prompt with `prompt` tokens; empty if it has the standard price.

    It is `above NK` with the highest threshold, in thousands of tokens, that the prompt exceeds.
    """
    matches = [match for column in row if (match := _LENGTH_COLUMN.fullmatch(column))]
    thresholds = [int(match[1]) for match in matches if prompt > 1_000 * int(match[1])]
    return f"above {max(thresholds)}K" if thresholds else ""


def is_prompt_rate(rate: str) -> bool:
    """Return whether a rate depends on the prompt's length."""
    return _LENGTH_RATE.fullmatch(rate) is not None


def is_priced(row: Row, rate: str) -> bool:
    """Return whether a model's row has a price or a factor for the rate."""
    if match := _LENGTH_RATE.fullmatch(rate):
        return f"{INPUT_PRICE}_above_{match[1]}k_tokens" in row
    if _SEARCH_RATE.fullmatch(rate):
        return _search_price(row, rate) is not None
    return rate in row.get(FACTORS, {}) or _has_tier(row, rate)


def price_per_call(row: Row, rates: tuple[str, ...]) -> float:
    """Return the dollars that each call at these rates costs beside its tokens."""
    return sum(_search_price(row, rate) or 0.0 for rate in rates)


def _search_price(row: Row, rate: str) -> float | None:
    """Return the dollars of the web searches that a rate counts.

    Return None if the rate counts none, or if their price is unknown.
    """
    match = _SEARCH_RATE.fullmatch(rate)
    if match is None:
        return None
    count, size = int(match[1]), match[2]
    prices = row.get(SEARCH_PRICES, {})
    if size in prices:
        return float(count * prices[size])
    # Without a known size, the price is known only if it is equal for all sizes.
    all_prices = set(prices.values())
    return float(count * all_prices.pop()) if len(all_prices) == 1 else None


def at_rates(row: Row, rates: tuple[str, ...]) -> Row:
    """Return the row's prices per token at these rates, by the names in `PRICES`.

    A rate such as `above 272K` or `priority` has price columns of its own; a rate such as `fast` or
    a region has a factor for all prices. A rate with neither changes nothing.
    """
    # Find the suffixes of the rates' columns, and the product of the rates' factors.
    lengths = [match[1] for rate in rates if (match := _LENGTH_RATE.fullmatch(rate))]
    length_suffix = f"_above_{lengths[0]}k_tokens" if lengths else ""
    tiers = [rate for rate in rates if _has_tier(row, rate)]
    tier_suffix = TIER_SUFFIXES[tiers[0]] if tiers else ""
    factors = row.get(FACTORS, {})
    factor = prod(factors.get(rate, 1.0) for rate in rates)
    input_price = _price_in(row, INPUT_PRICE, length_suffix, tier_suffix)
    # If a price has no column for these rates, change it by the same factor as the input's price.
    input_change = 1.0 if input_price is None else input_price / row[INPUT_PRICE]
    prices: dict[str, float] = {}
    for name in PRICES:
        if name in row:
            price = _price_in(row, name, length_suffix, tier_suffix)
            prices[name] = factor * (float(row[name]) * input_change if price is None else price)
    return prices


def _price_in(row: Row, name: str, length_suffix: str, tier_suffix: str) -> float | None:
    """Return a price at a prompt's length and in a tier; None if the row has no column for it.

    `name` is the column of the standard price. The suffixes of the length and the tier are empty
    for the standard length and tier. If the row has a column for each suffix but none for both
    together, multiply the standard price by both changes.
    """
    column_of_both = name + length_suffix + tier_suffix
    if column_of_both in row:
        return float(row[column_of_both])
    columns = [name + suffix for suffix in (length_suffix, tier_suffix) if suffix]
    prices = [float(row[column]) for column in columns if column in row]
    if len(prices) == 2:
        return prices[0] * prices[1] / float(row[name])
    return prices[0] if prices else None


def _has_tier(row: Row, tier: str) -> bool:
    """Return whether a model's row has prices for a service tier."""
    return tier in TIER_SUFFIXES and INPUT_PRICE + TIER_SUFFIXES[tier] in row
