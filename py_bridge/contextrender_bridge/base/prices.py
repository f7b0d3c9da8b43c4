"""Prices of models: your own, else those of LiteLLM's table.

A call's own prices come first, then the setting `prices`, then the table. A model that is not in
the table has the price of its family's newest model there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.model_table import is_listed, model_row, name_in_table
from contextrender_bridge.base.rates import at_rates, is_priced, join_rates, split_rates
from contextrender_bridge.base.setting_kinds import InvalidSetting, as_prices
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.base.shipped import price_table
from contextrender_bridge.base.usage import Usage

ANY = "*"
MILLION = 1e6
"""People write prices in dollars per million tokens."""


@dataclass(frozen=True)
class Price:
    """Dollars per token."""

    uncached: float
    cache_read: float
    cache_write: float
    cache_write_1h: float
    output: float

    def of(self, usage: Usage) -> float:
        """Return the cost of a call in dollars."""
        return (
            self.uncached * usage.uncached
            + self.cache_read * usage.cache_read
            + self.cache_write * usage.cache_write
            + self.cache_write_1h * usage.cache_write_1h
            + self.output * usage.output
        )

    def cost_of_counts(self, prompt: int, cached: int, output: int) -> float:
        """Return the cost of tokens counted here; `cached` of them were in the previous prompt.

        The other tokens have the price of a cache write, which some providers do not charge.
        """
        uncached = max(prompt - cached, 0)
        return self.cache_write * uncached + self.cache_read * cached + self.output * output


@dataclass(frozen=True)
class Prices:
    """Prices by model, `*` for every other; a model without one has the table's."""

    by_model: Mapping[str, Price]

    @classmethod
    def of(cls, prices: Sequence[str] = ()) -> Prices:
        """Return the prices of the setting `prices`, which those in the argument override.

        They have the form `gpt-5.1:input=2,cached=0.5,output=8`. Raise InvalidRequest.
        """
        try:
            price_lists = [as_prices(text) for text in (current_settings().prices, *prices) if text]
        except InvalidSetting as error:
            raise InvalidRequest(f"a price {error}") from None
        by_model: dict[str, Price] = {}
        for price_list in price_lists:
            by_model |= {model: price_from(numbers) for model, numbers in price_list.items()}
        return cls(by_model)

    def of_model(self, model: str) -> Price | None:
        """Return the model's price; None if it is unknown."""
        return self._own_of(model) or _of_table(model)

    def source_of(self, model: str) -> str:
        """Return the source of a model's price, for a sentence; empty if it is unknown."""
        if self._own_of(model):
            return "your own"
        table = price_table()
        list_name = f"{table.source}'s list ({table.date})"
        other_model = self.price_source_of(model)
        if other_model and is_listed(model):
            return f"that of {other_model} in {list_name}"
        if other_model:
            return f"that of {other_model}, its family's newest in {list_name}"
        return list_name if name_in_table(model) else ""

    def price_source_of(self, model: str) -> str:
        """Return the other name whose price a model has; empty if its own has one, or none has.

        The other name is that of its family's newest model, or has only rates with a price.
        """
        name, rates = split_rates(model)
        row = model_row(name)
        if self._own_of(model) or row is None:
            return ""
        listed_name = name if is_listed(name) else name_in_table(name) or ""
        priced_name = join_rates(listed_name, [rate for rate in rates if is_priced(row, rate)])
        return "" if priced_name == model else priced_name

    def _own_of(self, model: str) -> Price | None:
        """Return the price for a name, else for the name without its provider, else for any."""
        model, _ = split_rates(model)
        names = (model, model.rpartition("/")[2], ANY)
        return next((self.by_model[name] for name in names if name in self.by_model), None)


@cache
def _of_table(model: str) -> Price | None:
    name, rates = split_rates(model)
    row = model_row(name)
    return _price(at_rates(row, rates)) if row else None


def _price(row: Mapping[str, float]) -> Price:
    """Return the price in a row. Tokens without a price of their own cost as uncached ones do.

    Those that a cache keeps for an hour then cost twice as much, as Anthropic charges.
    """
    uncached = float(row["input_cost_per_token"])
    cache_read = row.get("cache_read_input_token_cost")
    cache_write = row.get("cache_creation_input_token_cost")
    cache_write_1h = row.get("cache_creation_input_token_cost_above_1hr")
    return Price(
        uncached,
        uncached if cache_read is None else float(cache_read),
        uncached if cache_write is None else float(cache_write),
        2 * uncached if cache_write_1h is None else float(cache_write_1h),
        float(row.get("output_cost_per_token") or 0.0),
    )


def price_from(numbers: Mapping[str, float]) -> Price:
    """Return the price in an operator's `numbers`, which are dollars per million tokens.

    `cached` is a tenth of `input` unless it is given, `written` as much as `input`.
    """
    uncached = numbers["input"] / MILLION
    cache_write = numbers.get("written", numbers["input"]) / MILLION
    return Price(
        uncached=uncached,
        cache_read=numbers.get("cached", numbers["input"] / 10) / MILLION,
        cache_write=cache_write,
        cache_write_1h=max(cache_write, 2 * uncached),
        output=numbers["output"] / MILLION,
    )
