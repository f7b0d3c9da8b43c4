"""Prices of models, for bills as providers make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from contextrender_bridge.model_table import model_row
from contextrender_bridge.usage import Usage


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


@cache
def price_of(model: str) -> Price | None:
    """The model's price, also under a provider's or dated name; None if the table has none."""
    row = model_row(model)
    return _price(row) if row else None


def _price(row: Mapping[str, Any]) -> Price:
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
