"""Writes what the wheel ships of others' data: tiktoken's encodings and LiteLLM's prices.

Both are read from the LiteLLM that is installed, so that the service needs no LiteLLM to count
tokens and to price calls. `make data` runs it; a test holds the files to the locked version.
"""

import importlib.util
import json
import shutil
from pathlib import Path

DATA = Path(__file__).resolve().parent.parent / "py_bridge" / "contextrender_bridge" / "data"
ENCODINGS = {
    "9b5ad71b2ce5302211f9c61530b329a4922fc6a4": "cl100k_base",
    "fb374d419588a4632f3f557e76b4b70aebbca790": "o200k_base",
}
"""tiktoken's own names of its cached files."""

FIELDS = (
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
    "cache_creation_input_token_cost_above_1hr",
    "max_input_tokens",
)
TABLE = "model_prices_and_context_window_backup.json"
CALLED = ("chat", "responses")


def main() -> None:
    """Writes the files."""
    source = litellms()
    (DATA / "encodings").mkdir(exist_ok=True)
    for name in ENCODINGS:
        shutil.copy(source / "litellm_core_utils" / "tokenizers" / name, DATA / "encodings")
    (DATA / "prices.json").write_text(prices(source), encoding="utf-8")


def litellms() -> Path:
    """LiteLLM's folder."""
    spec = importlib.util.find_spec("litellm")
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


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
