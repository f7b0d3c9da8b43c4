"""Write the data of other projects that the wheel ships: tiktoken's encodings, LiteLLM's prices.

With them the service counts tokens and prices calls without LiteLLM. `make data` runs this. The
prices are LiteLLM's current ones if its address answers, otherwise those of the installed LiteLLM.
Their date is today's, or that of the newest model with a date in its name.

An encoding is tiktoken's pattern, followed by its tokens in the order of their ranks, in base64,
one per line, compressed. It has a quarter of the size of tiktoken's own files and is read faster.
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
from contextrender_bridge.base.model_table import FACTORS as FACTORS_FIELD
from contextrender_bridge.base.model_table import SEARCH_PRICES
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
"""The fields with the prices of long prompts and of service tiers."""
FACTORS = "provider_specific_entry"
SEARCH_COSTS = "search_context_cost_per_query"
TABLE = "model_prices_and_context_window_backup.json"
LEVEL = 22
CHAT_MODES = ("chat", "responses")
DATE_SUFFIX = re.compile(r"-(20[2-9]\d-[01]\d-[0-3]\d)$")


def main() -> None:
    source = litellm_folder()
    (DATA / "encodings").mkdir(exist_ok=True)
    for name in ENCODINGS:
        packed = zstandard.ZstdCompressor(level=LEVEL).compress(packed_encoding(source, name))
        (DATA / "encodings" / f"{name}.zst").write_bytes(packed)
    (DATA / "prices.json").write_text(price_file(*newest_table(source)), encoding="utf-8")


def litellm_folder() -> Path:
    """Return LiteLLM's folder."""
    spec = importlib.util.find_spec("litellm")
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


def tiktoken_encoding(source: Path, name: str) -> tiktoken.Encoding:
    """Return tiktoken's encoding, read from the files that LiteLLM ships."""
    os.environ["TIKTOKEN_CACHE_DIR"] = str(source / "litellm_core_utils" / "tokenizers")
    return tiktoken.get_encoding(name)


def packed_encoding(source: Path, name: str) -> bytes:
    """Return an encoding in the format in which the wheel ships it."""
    encoding = tiktoken_encoding(source, name)
    tokens = sorted(encoding._mergeable_ranks, key=encoding._mergeable_ranks.__getitem__)
    return b"\n".join((encoding._pat_str.encode(), *map(b64encode, tokens)))


def newest_table(source: Path) -> tuple[str, str, dict[str, Any]]:
    """Return the source, the date and the rows of LiteLLM's current table."""
    import litellm

    try:
        reply = httpx.get(litellm.model_cost_map_url, timeout=10, follow_redirects=True)
        return "LiteLLM", date.today().isoformat(), reply.raise_for_status().json()
    except (httpx.HTTPError, ValueError):
        return installed_table(source)


def installed_table(source: Path) -> tuple[str, str, dict[str, Any]]:
    """Return the source, the date and the rows of the installed LiteLLM's table."""
    rows: dict[str, Any] = json.loads((source / TABLE).read_text(encoding="utf-8"))
    days = (day for name in rows for day in DATE_SUFFIX.findall(name))
    return f"LiteLLM {version('litellm')}", max(days), rows


def price_file(source: str, day: str, rows: dict[str, Any]) -> str:
    """Return the JSON of all chat models with token prices, one per line: prices and window."""
    priced_models = {
        model: price_fields(row)
        for model, row in sorted(rows.items())
        if row.get("mode") in CHAT_MODES and row.get("input_cost_per_token")
    }
    lines = ",\n".join(
        f"{json.dumps(model)}: {json.dumps(fields)}" for model, fields in priced_models.items()
    )
    head = f'"source": {json.dumps(source)},\n"date": {json.dumps(day)}'
    return f'{{\n{head},\n"models": {{\n{lines}\n}}\n}}\n'


def price_fields(row: dict[str, Any]) -> dict[str, Any]:
    """Return a model's window and prices, including the prices at other rates."""
    fields = {name: row[name] for name in FIELDS if row.get(name)}
    fields |= {name: row[name] for name in sorted(row) if RATES.fullmatch(name) and row[name]}
    if row.get(FACTORS):
        fields[FACTORS_FIELD] = row[FACTORS]
    cost_by_size = row.get(SEARCH_COSTS) or {}  # as in `search_context_size_low`
    search_prices = {
        size.rpartition("_")[2]: cost for size, cost in sorted(cost_by_size.items()) if cost
    }
    if search_prices:
        fields[SEARCH_PRICES] = search_prices
    return fields


if __name__ == "__main__":
    main()
