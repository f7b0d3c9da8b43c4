"""Prices by provider rule, and the shipped price table."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest
from contextrender_bridge.base import shipped
from contextrender_bridge.base.prices import Price, Prices, price_from
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.evaluation.billing import DEFAULT_MODELS, cost_of, price_under

from bench.shipped import TABLE, installed_table, litellm_folder, price_file, tiktoken_encoding

LOCKED = (Path(__file__).resolve().parents[2] / "requirements" / "lock.txt").read_text()


def table() -> dict[str, dict[str, float]]:
    read: dict[str, dict[str, float]] = json.loads((litellm_folder() / TABLE).read_text())
    return read


@pytest.mark.skipif(
    f"litellm=={version('litellm')} " not in LOCKED,
    reason="made from the locked version of LiteLLM",
)
def test_shipped_tables_equal_litellms() -> None:
    if shipped.price_table().source != "LiteLLM":  # then the table is newer than the package
        assert (shipped.DATA / "prices.json").read_text() == price_file(
            *installed_table(litellm_folder())
        )
    for name in shipped.ENCODINGS:
        encoding = tiktoken_encoding(litellm_folder(), name)
        assert shipped.encoding_of(name) == (encoding._pat_str, encoding._mergeable_ranks)


def price_of(model: str) -> Price:
    price = Prices.of().of_model(model)
    assert price is not None
    return price


def test_cost_of_a_call() -> None:
    price = price_from({"input": 2, "cached": 0.5, "written": 2.5, "output": 8})
    usage = Usage(uncached=100_000, cache_read=400_000, cache_write=200_000)
    assert cost_of(price, usage) == pytest.approx(0.2 + 0.2 + 0.5)
    assert cost_of(price, usage, 10_000) == pytest.approx(0.9 + 0.08)


@pytest.mark.parametrize("model", [*DEFAULT_MODELS.values(), "gpt-4o"])
def test_model_price_equals_litellms(model: str) -> None:
    row, price = table()[model], price_of(model)
    assert price.uncached == row["input_cost_per_token"]
    assert price.cache_read == row["cache_read_input_token_cost"]
    assert price.output == row["output_cost_per_token"]
    write_price = row.get("cache_creation_input_token_cost", row["input_cost_per_token"])
    assert price.cache_write == write_price


def test_run_uses_price_of_its_model_under_its_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    assert price_under("openai", "gpt-4o") == price_of("gpt-4o")
    assert price_under("anthropic", "gpt-4o") == price_of(DEFAULT_MODELS["anthropic"])
    assert price_under("anthropic_end", "claude-opus-4-6") == price_of("claude-opus-4-6")
    assert price_under("openai", "anthropic/claude-opus-4-6") == price_of(DEFAULT_MODELS["openai"])
    assert price_under("openai", "nobody-s-model") == price_of(DEFAULT_MODELS["openai"])
    monkeypatch.setenv("CONTEXTRENDER_PRICES", "*:input=2,cached=0.5,output=8")
    price = price_from({"input": 2, "cached": 0.5, "output": 8})
    assert price_under("openai", "gpt-4o") == price_under("anthropic", "gpt-4o") == price
