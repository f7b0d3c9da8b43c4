"""The settings that `contextrender wrap` gives its proxy: its options, otherwise the current
settings.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import pytest
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.settings import forget_settings
from contextrender_bridge.wrap import command

from tests.support.command import contextrender, printed


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in ("BUDGET", "POLICY", "DEADLINE", "PROVIDER_TIMEOUT", "CONFIG"):
        monkeypatch.delenv(f"CONTEXTRENDER_{name}", raising=False)
    forget_settings()
    yield monkeypatch
    monkeypatch.undo()
    forget_settings()


def proxy_settings(*words: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return vars(command._settings(parser.parse_args([*words, "claude"])))


def test_options_override_settings(settings: pytest.MonkeyPatch) -> None:
    unset = proxy_settings()
    assert (unset["budget"], unset["policy"]) == ("auto", "contextrender_cache_aware")
    settings.setenv("CONTEXTRENDER_BUDGET", "12000")
    settings.setenv("CONTEXTRENDER_POLICY", "prune")
    settings.setenv("CONTEXTRENDER_RENDER_TIMEOUT", "5")
    settings.setenv("CONTEXTRENDER_PROVIDER_TIMEOUT", "60")
    forget_settings()
    from_environment = proxy_settings()
    assert (from_environment["budget"], from_environment["policy"]) == (12_000, "prune")
    assert (from_environment["render_timeout"], from_environment["provider_timeout"]) == (5.0, 60.0)
    with_options = proxy_settings("--budget", "3000", "--policy", "full")
    assert (with_options["budget"], with_options["policy"]) == (3_000, "full")


def test_invalid_option_raises_command_error(settings: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="--budget"):
        proxy_settings("--budget", "")


@pytest.mark.parametrize("words", [[], ["--base-url-env", "OPENAI_BASE_URL", "--"]])
def test_missing_agent_name_is_explained(words: list[str]) -> None:
    assert printed("wrap", *words, status=2) == (
        "contextrender: name the agent or the command to run, as in `contextrender wrap claude`.\n"
    )


def test_unset_variable_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MY_URL", "MY_OPENAI_URL"):
        monkeypatch.delenv(name, raising=False)
    unknown, with_default = (
        contextrender("wrap", "--dry-run", "--base-url-env", name, "--", "true")
        for name in ("MY_URL", "MY_OPENAI_URL")
    )
    assert unknown.returncode != 0 and "MY_URL is not set" in unknown.stderr
    assert "MY_OPENAI_URL is not set; wrap uses https://api.openai.com/v1" in with_default.stdout
