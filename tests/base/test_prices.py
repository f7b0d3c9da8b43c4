"""Prices: configured ones, the list's, and those of versions that the list does not have."""

from pathlib import Path

import pytest
from contextrender_bridge.base import settings
from contextrender_bridge.base.model_table import name_in_table, window_of
from contextrender_bridge.base.prices import Prices

from tests.support.command import printed


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTRENDER_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text("# mine\nthreads = 4\n")
    monkeypatch.delenv("CONTEXTRENDER_PRICES", raising=False)
    settings.forget_settings()


@pytest.mark.parametrize(
    ("model", "name_of_prices"),
    [
        ("claude-opus-4-1", "claude-opus-4-1"),
        ("anthropic/claude-opus-4-1-20250805", "claude-opus-4-1-20250805"),
        ("claude-opus-4-99", "claude-opus-4-6"),
        ("claude-opus-4-99[1m]", "claude-opus-4-6"),
        ("claude-sonnet-9-20991231", "claude-sonnet-4-6"),
        ("openai/gpt-5.99-codex", "gpt-5.3-codex"),
        ("gpt-99-mini", "gpt-5.4-mini"),
        ("o99-mini", "o4-mini"),
        ("deepseek.v99", "deepseek.v3.2"),
        ("deepseek-v99", None),
        ("somebody-s-own-7", None),
        ("claude", None),
        ("", None),
    ],
)
def test_unknown_version_uses_newest_of_its_family(model: str, name_of_prices: str | None) -> None:
    assert name_in_table(model) == name_of_prices
    assert (window_of(model) is None) == (name_of_prices is None)


def test_price_has_its_source() -> None:
    prices = Prices.of(["mine:input=1,output=2"])
    assert prices.source_of("mine") == "your own"
    assert prices.source_of("claude-opus-4-1").startswith("LiteLLM")
    assert "that of claude-opus-4-6" in prices.source_of("claude-opus-4-99")
    assert prices.source_of("somebody-s-own-7") == ""
    assert prices.price_source_of("claude-opus-4-1") == ""


def test_price_command_shows_and_sets_prices() -> None:
    new = ("price", "claude-opus-4-99")
    assert "claude-opus-4-6" in printed(*new)
    assert "your own" in printed(*new, "--set", "input=4,output=20")
    printed("price", "b", "--set", "input=1,output=2")
    price = Prices.of().of_model("claude-opus-4-99")
    assert price is not None
    assert price.uncached == pytest.approx(4e-6)
    assert settings.current_settings().threads == 4
    assert "# mine" in settings.config_file().read_text()

    assert "that of" in printed(*new, "--unset")
    assert "input=2" in printed("price", "b", "--set", "4", status=1)
    printed("price", "nobody-s", status=1)


def test_price_command_shows_list_date() -> None:
    output = printed("price")
    assert "models have a price in LiteLLM" in output
    assert all(len(line) <= 80 for line in output.splitlines() if "config.toml" not in line)


def test_price_set_by_environment_cannot_be_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTRENDER_PRICES", "x:input=1,output=2")
    settings.forget_settings()
    assert "CONTEXTRENDER_PRICES" in printed("price", "x", "--unset", status=1)
