"""Prices of models: one's own, else those of LiteLLM's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from contextrender_bridge.errors import InvalidRequest
from contextrender_bridge.model_table import model_row
from contextrender_bridge.setting_kinds import Unfit, as_prices
from contextrender_bridge.usage import Usage

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


@dataclass(frozen=True)
class OwnPrices:
    """Prices by model, `*` for every other; a model without one has the table's."""

    given: Mapping[str, Price]

    @classmethod
    def of(cls, settings: Sequence[str]) -> OwnPrices:
        """From texts such as `gpt-5.1:input=2,cached=0.5,output=8`. Raises InvalidRequest."""
        try:
            read = [as_prices(text) for text in settings if text]
        except Unfit as wrong:
            raise InvalidRequest(f"a price {wrong}") from None
        named = {model: numbers for prices in read for model, numbers in prices.items()}
        return cls({model: _own(numbers) for model, numbers in named.items()})

    def price_of(self, model: str) -> Price | None:
        """The model's price; None where nobody knows it."""
        return self.given.get(model) or self.given.get(ANY) or price_of(model)


@cache
def price_of(model: str) -> Price | None:
    """The model's price, also under a provider's or dated name; None if the table has none."""
    row = model_row(model)
    return _price(row) if row else None


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


def _own(numbers: Mapping[str, float]) -> Price:
    """From dollars for a million tokens."""
    fresh = numbers["input"] / 1e6
    written = numbers.get("written", numbers["input"]) / 1e6
    cached = numbers.get("cached", numbers["input"] / 10) / 1e6
    return Price(fresh, cached, written, max(written, 2 * fresh), numbers["output"] / 1e6)
