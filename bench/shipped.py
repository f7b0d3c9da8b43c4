"""Writes what the wheel ships of others' data: tiktoken's encodings and LiteLLM's prices.

So the service needs no LiteLLM to count tokens and to price calls. `make data` runs it. The prices
are LiteLLM's of today where its address answers, else those of the LiteLLM that is installed; their
date is today's, or that of the newest model with a date in its name.

An encoding is tiktoken's pattern, then its tokens in the order of their ranks, base64, a line each,
compressed: a quarter of tiktoken's own files, and read faster.
"""

import importlib.util
import json
import os
import re
from base64 import b64encode
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import tiktoken
import zstandard
from contextrender_bridge.base.rates import FACTORS as FACTORS_FIELD
from contextrender_bridge.base.shipped import ENCODINGS

DATA = Path(__file__).resolve().parent.parent / "py_bridge" / "contextrender_bridge" / "data"
FIELDS = (
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
    "cache_creation_input_token_cost_above_1hr",
    "max_input_tokens",
)
RATES = re.compile(rf"({'|'.join(FIELDS[:5])})(_above_[0-9]+k_tokens)?(_priority|_flex|_batches)?")
"""Columns with the price of long prompts and of service tiers."""
FACTORS = "provider_specific_entry"
TABLE = "model_prices_and_context_window_backup.json"
LEVEL = 22
CALLED = ("chat", "responses")
DAY = re.compile(r"-(20[2-9]\d-[01]\d-[0-3]\d)$")


def main() -> None:
    source = litellms()
    (DATA / "encodings").mkdir(exist_ok=True)
    for name in ENCODINGS:
        packed = zstandard.ZstdCompressor(level=LEVEL).compress(encoding(source, name))
        (DATA / "encodings" / f"{name}.zst").write_bytes(packed)
    (DATA / "prices.json").write_text(prices(*newest(source)), encoding="utf-8")


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


def newest(source: Path) -> tuple[str, str, dict[str, Any]]:
    """LiteLLM's table: where it is from, its date, its rows."""
    import litellm

    try:
        reply = httpx.get(litellm.model_cost_map_url, timeout=10, follow_redirects=True)
        return "LiteLLM", date.today().isoformat(), reply.raise_for_status().json()
    except (httpx.HTTPError, ValueError):
        return installed(source)


def installed(source: Path) -> tuple[str, str, dict[str, Any]]:
    """The table of the LiteLLM that is installed."""
    rows: dict[str, Any] = json.loads((source / TABLE).read_text(encoding="utf-8"))
    days = (day for name in rows for day in DAY.findall(name))
    return f"LiteLLM {version('litellm')}", max(days), rows


def prices(source: str, day: str, rows: dict[str, Any]) -> str:
    """Dollars for a token and the window, a model a line, of those called and priced by tokens."""
    kept = {
        model: kept_of(row)
        for model, row in sorted(rows.items())
        if row.get("mode") in CALLED and row.get("input_cost_per_token")
    }
    lines = ",\n".join(f"{json.dumps(model)}: {json.dumps(row)}" for model, row in kept.items())
    head = f'"source": {json.dumps(source)},\n"date": {json.dumps(day)}'
    return f'{{\n{head},\n"models": {{\n{lines}\n}}\n}}\n'


def kept_of(row: dict[str, Any]) -> dict[str, Any]:
    """A model's prices, those of its rates included."""
    fields = {name: row[name] for name in FIELDS if row.get(name)}
    rates = {name: row[name] for name in sorted(row) if RATES.fullmatch(name) and row[name]}
    factors = {FACTORS_FIELD: row[FACTORS]} if row.get(FACTORS) else {}
    return {**fields, **rates, **factors}


if __name__ == "__main__":
    main()
