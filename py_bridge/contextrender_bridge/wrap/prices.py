"""Prices of models, from the table that LiteLLM ships, read without importing it."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from contextrender_bridge.wrap.usage import Usage

TABLE = "model_prices_and_context_window_backup.json"
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
    table = _table()
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


@cache
def _table() -> Mapping[str, Any]:
    found = importlib.util.find_spec("litellm")
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder) / TABLE
        if path.is_file():
            table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return table
    return {}
