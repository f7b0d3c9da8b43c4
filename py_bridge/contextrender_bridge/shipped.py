"""Others' data that the distribution ships (`make data` writes it): encodings and prices."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from functools import cache
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"
ENCODINGS = ("cl100k_base", "o200k_base")
"""Those of tiktoken's that are shipped."""


@cache
def prices() -> Mapping[str, Mapping[str, float]]:
    """Dollars for a token, and the window, by model, under the names of LiteLLM's table."""
    found: dict[str, dict[str, float]] = json.loads((DATA / "prices.json").read_text("utf-8"))
    return found


def encoding_of(name: str) -> tuple[str, dict[bytes, int]]:
    """The pattern that splits texts, and each token's rank, of one of `ENCODINGS`."""
    import zstandard  # the thin client has neither it nor tiktoken

    packed = (DATA / "encodings" / f"{name}.zst").read_bytes()
    pattern, *tokens = zstandard.decompress(packed).split(b"\n")
    return pattern.decode(), {b64decode(token): rank for rank, token in enumerate(tokens)}
