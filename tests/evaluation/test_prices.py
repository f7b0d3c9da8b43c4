"""Prices under a provider's rule, and the table that is shipped."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest
from contextrender_bridge.base import shipped
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.prices import price_from
from contextrender_bridge.base.usage import Usage

from bench.shipped import TABLE, installed, litellms, prices, tiktokens
from evaluation.prices import DEFAULTS, RulePrices, cost_of, price_of

LOCKED = (Path(__file__).resolve().parents[2] / "requirements" / "lock.txt").read_text()


def table() -> dict[str, dict[str, float]]:
    read: dict[str, dict[str, float]] = json.loads((litellms() / TABLE).read_text())
    return read


@pytest.mark.skipif(
    f"litellm=={version('litellm')} " not in LOCKED,
    reason="made from the locked version of LiteLLM",
)
def test_what_is_shipped_is_the_installed_litellms() -> None:
    if shipped.price_table().source != "LiteLLM":  # that is its table of a later day
        assert (shipped.DATA / "prices.json").read_text() == prices(*installed(litellms()))
    for name in shipped.ENCODINGS:
        theirs = tiktokens(litellms(), name)
        assert shipped.encoding_of(name) == (theirs._pat_str, theirs._mergeable_ranks)


def test_what_calls_cost_by_hand() -> None:
    price = price_from({"input": 2, "cached": 0.5, "written": 2.5, "output": 8})
    billed = Usage(fresh=100_000, read=400_000, written=200_000)
    assert cost_of(price, billed) == pytest.approx(0.2 + 0.2 + 0.5)
    assert cost_of(price, billed, 10_000) == pytest.approx(0.9 + 0.08)


@pytest.mark.parametrize("model", [*DEFAULTS.values(), "gpt-4o"])
def test_a_models_price_is_litellms(model: str) -> None:
    row, price = table()[model], price_of(model)
    assert price.fresh == row["input_cost_per_token"]
    assert price.read == row["cache_read_input_token_cost"]
    assert price.output == row["output_cost_per_token"]
    written = row.get("cache_creation_input_token_cost", row["input_cost_per_token"])
    assert price.written == written


def test_a_run_has_its_own_models_price_under_its_own_providers_rule() -> None:
    prices = RulePrices()
    assert prices.of("openai", "gpt-4o") == price_of("gpt-4o")
    assert prices.of("anthropic", "gpt-4o") == price_of(DEFAULTS["anthropic"])
    assert prices.of("anthropic_end", "claude-opus-4-6") == price_of("claude-opus-4-6")
    assert prices.of("openai", "claude-opus-4-6") == price_of(DEFAULTS["openai"])
    assert prices.of("openai", "anthropic/claude-opus-4-6") == price_of(DEFAULTS["openai"])
    assert prices.of("openai", "nobody-s-model") == price_of(DEFAULTS["openai"])


def test_prices_set_hold_for_every_run() -> None:
    prices = RulePrices.parsed(["gpt-4o", "anthropic:input=4,output=20"])
    assert prices.of("openai", "gpt-5.1") == price_of("gpt-4o")
    assert prices.of("anthropic", "claude-opus-4-6") == price_from(
        {"input": 4, "cached": 0.4, "written": 5, "output": 20}
    )
    (own,) = RulePrices.parsed(["openai:input=2,cached=0.5,output=8"]).given.values()
    assert own == price_from({"input": 2, "cached": 0.5, "output": 8})


@pytest.mark.parametrize(
    "wrong",
    [
        "nobody-s-model",
        "google:input=1,output=2",
        "openai:input=1",
        "openai:input=x,output=1",
        "openai:input=-1,output=1",
        "openai:input=1,output=1,tax=3",
        "openai:input,output",
    ],
)
def test_a_wrong_price_is_a_sentence(wrong: str) -> None:
    with pytest.raises(CommandError):
        RulePrices.parsed([wrong])
