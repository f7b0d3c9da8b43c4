"""What is known of models by name: prices and windows, from LiteLLM's table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from contextrender_bridge.shipped import prices

_DATED = re.compile(r"-\d{4}-?\d{2}-?\d{2}$|\[\w+\]$")


def model_row(model: str) -> Mapping[str, float] | None:
    """Dollars for a token, and the window, also under a provider's or dated name."""
    table = prices()
    bare = model.rpartition("/")[2]
    for name in (model, bare, _DATED.sub("", model), _DATED.sub("", bare)):
        if name and (row := table.get(name)):
            return row
    return None


@cache
def window_of(model: str) -> int | None:
    """The most tokens a model takes; None where that is not known."""
    row = model_row(model)
    return int(row.get("max_input_tokens", 0)) or None if row else None
