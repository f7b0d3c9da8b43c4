"""Others' data that the distribution ships (`make data` writes it): encodings and prices."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"
ENCODINGS = DATA / "encodings"
"""tiktoken's files of o200k_base and cl100k_base, under its own names: a cache folder of its."""


@cache
def prices() -> Mapping[str, Mapping[str, float]]:
    """Dollars for a token, and the window, by model, under the names of LiteLLM's table."""
    found: dict[str, dict[str, float]] = json.loads((DATA / "prices.json").read_text("utf-8"))
    return found
