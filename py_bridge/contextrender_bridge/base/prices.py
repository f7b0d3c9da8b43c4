"""Prices of models: your own, else those of LiteLLM's table.

A call's own prices come first, then the setting `prices`, then the table; of a model that the table
does not have, its family's newest known one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.model_table import is_listed, known_as, model_row
from contextrender_bridge.base.rates import at_rates, is_priced, join_rates, split_rates
from contextrender_bridge.base.setting_kinds import Unfit, as_prices
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.base.shipped import price_table
from contextrender_bridge.base.usage import Usage

ANY = "*"


@dataclass(frozen=True)
class Price:
    """Dollars for a token."""

    fresh: float
    read: float
    written: float
    written_long: float
    output: float

    def of(self, usage: Usage) -> float:
        """What a call costs, in dollars."""
        return (
            self.fresh * usage.fresh
            + self.read * usage.read
            + self.written * usage.written
            + self.written_long * usage.written_long
            + self.output * usage.output
        )

    def counted(self, prompt: int, cached: int, output: int) -> float:
        """The same of tokens counted here, of which the prompt before had the `cached` ones.

        Where a provider charges for writing to its cache, what is new is taken as written there.
        """
        fresh = max(prompt - cached, 0)
        return self.written * fresh + self.read * cached + self.output * output


@dataclass(frozen=True)
class Prices:
    """Prices by model, `*` for every other; a model without one has the table's."""

    own: Mapping[str, Price]

    @classmethod
    def of(cls, given: Sequence[str] = ()) -> Prices:
        """The setting's and, before them, those `given` as `gpt-5.1:input=2,cached=0.5,output=8`.

        Raises InvalidRequest.
        """
        try:
            read = [as_prices(text) for text in (current_settings().prices, *given) if text]
        except Unfit as wrong:
            raise InvalidRequest(f"a price {wrong}") from None
        named = {model: numbers for prices in read for model, numbers in prices.items()}
        return cls({model: price_from(numbers) for model, numbers in named.items()})

    def of_model(self, model: str) -> Price | None:
        """The model's price; None where nobody knows it."""
        return self._own_of(model) or _of_table(model)

    def told(self, model: str) -> str:
        """Where the model's price is from, for a sentence; empty where nobody knows it."""
        if self._own_of(model):
            return "your own"
        table = price_table()
        listed = f"{table.source}'s list ({table.date})"
        if (other := self.stands_as(model)) and is_listed(model):
            return f"that of {other} in {listed}"
        if other:
            return f"that of {other}, its family's newest in {listed}"
        return listed if known_as(model) else ""

    def stands_as(self, model: str) -> str:
        """Return the name whose price is taken for it; empty if it has its own or none."""
        name, rates = split_rates(model)
        row = model_row(name)
        if self._own_of(model) or row is None:
            return ""
        other = name if is_listed(name) else known_as(name) or ""
        told = join_rates(other, tuple(rate for rate in rates if is_priced(row, rate)))
        return "" if told == model else told

    def _own_of(self, model: str) -> Price | None:
        model, _ = split_rates(model)
        bare = model.rpartition("/")[2]
        return self.own.get(model) or self.own.get(bare) or self.own.get(ANY)


@cache
def _of_table(model: str) -> Price | None:
    name, rates = split_rates(model)
    row = model_row(name)
    return _price(at_rates(row, rates)) if row else None


def _price(row: Mapping[str, float]) -> Price:
    fresh = float(row["input_cost_per_token"])
    read = row.get("cache_read_input_token_cost")
    written = row.get("cache_creation_input_token_cost")
    long = row.get("cache_creation_input_token_cost_above_1hr")
    return Price(
        fresh,
        fresh if read is None else float(read),
        fresh if written is None else float(written),
        2 * fresh if long is None else float(long),
        float(row.get("output_cost_per_token") or 0.0),
    )


def price_from(numbers: Mapping[str, float]) -> Price:
    """From dollars for a million tokens."""
    fresh = numbers["input"] / 1e6
    written = numbers.get("written", numbers["input"]) / 1e6
    cached = numbers.get("cached", numbers["input"] / 10) / 1e6
    return Price(fresh, cached, written, max(written, 2 * fresh), numbers["output"] / 1e6)
