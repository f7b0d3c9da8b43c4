"""Third-party data in the distribution: tiktoken's encodings and LiteLLM's prices.

`make data` writes these files.
"""

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "data"
ENCODINGS = ("cl100k_base", "o200k_base")
"""The shipped encodings of tiktoken."""


@dataclass(frozen=True)
class PriceTable:
    """LiteLLM's price table, with its source and date.

    Each model has its dollars per token and the tokens of its window.
    """

    source: str
    date: str
    models: Mapping[str, Mapping[str, Any]]


@cache
def price_table() -> PriceTable:
    """Return the shipped price table."""
    return PriceTable(**json.loads((DATA / "prices.json").read_text("utf-8")))


def prices() -> Mapping[str, Mapping[str, Any]]:
    """Return the models of the shipped price table."""
    return price_table().models


def encoding_of(name: str) -> tuple[str, dict[bytes, int]]:
    """Read a shipped encoding of tiktoken.

    Return the pattern that splits texts, and a dictionary that maps each token to its rank.
    """
    import zstandard  # the thin client has neither it nor tiktoken

    packed = (DATA / "encodings" / f"{name}.zst").read_bytes()
    pattern, *tokens = zstandard.decompress(packed).split(b"\n")
    return pattern.decode(), {b64decode(token): rank for rank, token in enumerate(tokens)}
