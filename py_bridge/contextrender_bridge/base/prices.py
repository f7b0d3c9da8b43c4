"""Prices of models: the operator's own, otherwise those of LiteLLM's table.

The arguments of `Prices.of` take precedence over the setting `prices`, and the setting over the
table. A model that is not in the table has the price of the newest model of its family.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.model_table import (
    at_rates,
    is_listed,
    is_priced,
    join_rates,
    model_row,
    name_in_table,
    price_per_call,
    split_rates,
)
from contextrender_bridge.base.setting_kinds import InvalidSetting, as_prices
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.base.shipped import price_table
from contextrender_bridge.base.usage import Usage

ANY = "*"
MILLION = 1e6
"""Operators write prices in dollars per million tokens."""


@dataclass(frozen=True)
class Price:
    """The prices of one model in dollars per token, by kind of token.

    `per_call` is the dollars of each call beside its tokens, such as those of its web searches.
    """

    uncached: float
    cache_read: float
    cache_write: float
    cache_write_1h: float
    output: float
    per_call: float = 0.0

    def of(self, usage: Usage) -> float:
        """Return the cost of a usage in dollars."""
        return (
            self.uncached * usage.uncached
            + self.cache_read * usage.cache_read
            + self.cache_write * usage.cache_write
            + self.cache_write_1h * usage.cache_write_1h
            + self.output * usage.output
            + self.per_call * usage.calls
        )

    def cost_of_counts(self, prompt: int, cached: int, output: int) -> float:
        """Return the cost in dollars of a prompt and an answer whose tokens were counted here.

        `cached` tokens of the prompt were in the previous prompt, so each costs a cache read. Each
        other one costs a cache write, because the provider would store it in its cache.
        """
        uncached = max(prompt - cached, 0)
        return self.cache_write * uncached + self.cache_read * cached + self.output * output


@dataclass(frozen=True)
class Prices:
    """The operator's prices by model; `*` stands for every other model.

    A model without such a price has the table's price.
    """

    by_model: Mapping[str, Price]

    @classmethod
    def of(cls, prices: Sequence[str] = ()) -> "Prices":
        """Return the prices in the setting `prices` and in the argument `prices`.

        The argument takes precedence. Each of its texts has the form
        `gpt-5.1:input=2,cached=0.5,output=8`. Raise InvalidRequest if one is invalid.
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
        table_price, own_price = _table_price(model), self._own_of(model)
        if own_price and table_price:
            # The operator's prices are for tokens only.
            return replace(own_price, per_call=table_price.per_call)
        return own_price or table_price

    def source_of(self, model: str) -> str:
        """Return a phrase that names the source of a model's price; empty if it has no price."""
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
        """Return the name of another model whose price in the table is used for `model`.

        If the table lacks the model, this is the newest model of its family. Rates without a price
        are left out: `m (fast, batch)` becomes `m (batch)` if `m` has no price for `fast`. Return
        "" if the name would be the model's own, if the operator set the price, or if there is no
        price.
        """
        name, rates = split_rates(model)
        row = model_row(name)
        if self._own_of(model) or row is None:
            return ""
        listed_name = name if is_listed(name) else name_in_table(name) or ""
        priced_name = join_rates(listed_name, [rate for rate in rates if is_priced(row, rate)])
        return "" if priced_name == model else priced_name

    def _own_of(self, model: str) -> Price | None:
        """Return the operator's price for a model; None if there is none.

        Look for the model's name, then its name without the provider, then `*`.
        """
        model, _ = split_rates(model)
        names = (model, model.rpartition("/")[2], ANY)
        return next((self.by_model[name] for name in names if name in self.by_model), None)


@cache
def _table_price(model: str) -> Price | None:
    """Return a model's price in the table at the rates in its name; None if there is none."""
    name, rates = split_rates(model)
    row = model_row(name)
    if row is None:
        return None
    return replace(_price(at_rates(row, rates)), per_call=price_per_call(row, rates))


def _price(row: Mapping[str, float]) -> Price:
    """Return the prices in a row of the table.

    If a row has no price for cache reads or writes, take the price of uncached tokens. If it has no
    price for writes that the cache keeps for an hour, take twice that price, as Anthropic charges.
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

    Without `cached`, a cache read costs a tenth of `input`. Without `written`, a cache write costs
    `input`. A write that the cache keeps for an hour costs twice `input`, or `written` if that is
    more.
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
