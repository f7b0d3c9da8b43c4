"""What `contextrender wrap` tells its proxy: its own options, else the settings in force."""

import argparse
from collections.abc import Iterator
from typing import Any

import pytest
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.settings import forget_settings
from contextrender_bridge.wrap import command

from tests.support.command import contextrender


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in ("BUDGET", "POLICY", "DEADLINE", "PROVIDER_TIMEOUT", "CONFIG"):
        monkeypatch.delenv(f"CONTEXTRENDER_{name}", raising=False)
    forget_settings()
    yield monkeypatch
    monkeypatch.undo()
    forget_settings()


def told(*words: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return vars(command._settings(parser.parse_args([*words, "claude"])))


def test_what_is_set_counts_where_no_option_says_otherwise(settings: pytest.MonkeyPatch) -> None:
    unset = told()
    assert (unset["budget"], unset["policy"]) == ("auto", "contextrender_cache_aware")
    settings.setenv("CONTEXTRENDER_BUDGET", "12000")
    settings.setenv("CONTEXTRENDER_POLICY", "prune")
    settings.setenv("CONTEXTRENDER_RENDER_TIMEOUT", "5")
    settings.setenv("CONTEXTRENDER_PROVIDER_TIMEOUT", "60")
    forget_settings()
    known = told()
    assert (known["budget"], known["policy"]) == (12_000, "prune")
    assert (known["render_timeout"], known["provider_timeout"]) == (5.0, 60.0)
    asked = told("--budget", "3000", "--policy", "full")
    assert (asked["budget"], asked["policy"]) == (3_000, "full")


def test_an_option_that_cannot_be_is_a_sentence(settings: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="--budget"):
        told("--budget", "")


def test_an_unset_variable_is_told_and_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MY_URL", "MY_OPENAI_URL"):
        monkeypatch.delenv(name, raising=False)
    unknown, known = (
        contextrender("wrap", "--dry-run", "--base-url-env", name, "--", "true")
        for name in ("MY_URL", "MY_OPENAI_URL")
    )
    assert unknown.returncode != 0 and "MY_URL is not set" in unknown.stderr
    assert "MY_OPENAI_URL is not set; wrap uses https://api.openai.com/v1" in known.stdout
