"""Others' data that the distribution ships (`make data` writes it): encodings and prices."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "data"
ENCODINGS = ("cl100k_base", "o200k_base")
"""Those of tiktoken's that are shipped."""


@dataclass(frozen=True)
class PriceTable:
    """LiteLLM's: dollars for a token, and the window, by model; whose it is, and of what day."""

    source: str
    date: str
    models: Mapping[str, Mapping[str, Any]]


@cache
def price_table() -> PriceTable:
    """The one that is shipped."""
    return PriceTable(**json.loads((DATA / "prices.json").read_text("utf-8")))


def prices() -> Mapping[str, Mapping[str, Any]]:
    """Its models."""
    return price_table().models


def encoding_of(name: str) -> tuple[str, dict[bytes, int]]:
    """The pattern that splits texts, and each token's rank, of one of `ENCODINGS`."""
    import zstandard  # the thin client has neither it nor tiktoken

    packed = (DATA / "encodings" / f"{name}.zst").read_bytes()
    pattern, *tokens = zstandard.decompress(packed).split(b"\n")
    return pattern.decode(), {b64decode(token): rank for rank, token in enumerate(tokens)}
