"""Prices of models, from LiteLLM's table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from contextrender_bridge.shipped import prices
from contextrender_bridge.wrap.usage import Usage

_DATED = re.compile(r"-\d{4}-?\d{2}-?\d{2}$|\[\w+\]$")


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
    table = prices()
    bare = model.rpartition("/")[2]
    for name in (model, bare, _DATED.sub("", model), _DATED.sub("", bare)):
        row = table.get(name)
        if row and row.get("input_cost_per_token"):
            return _price(row)
    return None


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
