"""Writes what the wheel ships of others' data: tiktoken's encodings and LiteLLM's prices.

Both are read from the LiteLLM that is installed, so that the service needs no LiteLLM to count
tokens and to price calls. `make data` runs it; a test holds them to the locked version.

An encoding is tiktoken's pattern, then its tokens in the order of their ranks, base64, a line each,
compressed: a quarter of tiktoken's own files, and read faster.
"""

import importlib.util
import json
import os
from base64 import b64encode
from pathlib import Path

import tiktoken
import zstandard
from contextrender_bridge.shipped import ENCODINGS

DATA = Path(__file__).resolve().parent.parent / "py_bridge" / "contextrender_bridge" / "data"
FIELDS = (
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
    "cache_creation_input_token_cost_above_1hr",
    "max_input_tokens",
)
TABLE = "model_prices_and_context_window_backup.json"
LEVEL = 22
CALLED = ("chat", "responses")


def main() -> None:
    """Writes the files."""
    source = litellms()
    (DATA / "encodings").mkdir(exist_ok=True)
    for name in ENCODINGS:
        packed = zstandard.ZstdCompressor(level=LEVEL).compress(encoding(source, name))
        (DATA / "encodings" / f"{name}.zst").write_bytes(packed)
    (DATA / "prices.json").write_text(prices(source), encoding="utf-8")


def litellms() -> Path:
    """LiteLLM's folder."""
    spec = importlib.util.find_spec("litellm")
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


def tiktokens(source: Path, name: str) -> tiktoken.Encoding:
    """tiktoken's own, from the files that LiteLLM ships under tiktoken's names for them."""
    os.environ["TIKTOKEN_CACHE_DIR"] = str(source / "litellm_core_utils" / "tokenizers")
    return tiktoken.get_encoding(name)


def encoding(source: Path, name: str) -> bytes:
    """As it is shipped."""
    made = tiktokens(source, name)
    tokens = sorted(made._mergeable_ranks, key=made._mergeable_ranks.__getitem__)
    return b"\n".join((made._pat_str.encode(), *map(b64encode, tokens)))


def prices(source: Path) -> str:
    """Dollars for a token and the window, a model a line, of those called and priced by tokens."""
    table = json.loads((source / TABLE).read_text(encoding="utf-8"))
    kept = {
        model: {field: row[field] for field in FIELDS if row.get(field)}
        for model, row in sorted(table.items())
        if row.get("mode") in CALLED and row.get("input_cost_per_token")
    }
    lines = (f"{json.dumps(model)}: {json.dumps(row)}" for model, row in kept.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    main()
