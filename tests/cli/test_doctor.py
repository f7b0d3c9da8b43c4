"""`contextrender doctor`: what it finds on machines that are set up well, badly and not at all."""

import json
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from contextrender_bridge.cli import doctor, main


def findings(capsys: pytest.CaptureFixture[str], status: int) -> dict[str, dict[str, str]]:
    assert main(["doctor", "--json"]) == status
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] == (status == 0)
    return {finding["what"]: finding for finding in told["findings"]}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home with nothing in it, and no program of theirs."""
    for name in list(os.environ):
        if name.startswith(("CONTEXTRENDER_", "CTXGRAPH_", "OPENAI_", "ANTHROPIC_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_a_new_machine(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(capsys, 0)
    assert found["tokenizer"]["state"] == found["embedder"]["state"] == "ok"
    assert "serve" in found["service"]["advice"]
    assert "npm install" in found["claude"]["advice"]
    assert not (machine / ".local").exists()


def test_an_agent_and_its_provider(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (machine / "bin").mkdir()
    (machine / "bin" / "claude").write_text("#!/bin/sh\n")
    (machine / "bin" / "claude").chmod(0o755)
    (machine / ".claude").mkdir()
    own = {"env": {"ANTHROPIC_BASE_URL": "https://gateway.test"}}
    (machine / ".claude" / "settings.json").write_text(json.dumps(own))
    found = findings(capsys, 0)["claude"]
    assert "https://gateway.test/v1" in found["told"]
    assert found["advice"] == "contextrender wrap claude"


def test_a_data_folder_that_is_a_file(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine / "data").write_text("")
    monkeypatch.setenv("CONTEXTRENDER_DATA", str(machine / "data"))
    assert "is a file" in findings(capsys, 1)["data"]["told"]


def test_a_part_that_is_missing_is_named_with_what_brings_it(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def there(name: str) -> str:
        if name == "mcp":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "version", there)
    found = findings(capsys, 0)["parts"]
    assert found["told"] == "not installed: mcp"
    assert "[mcp]" in found["advice"]


def test_for_people(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok    python")


def test_bare_it_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "  wrap " in capsys.readouterr().out


def test_it_goes_on_after_settings_that_are_wrong(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONTEXTRENDER_URL", "foo")
    monkeypatch.setenv("CONTEXTRENDER_BUDGET", "much")
    monkeypatch.setenv("CONTEXTRENDER_POLICYY", "prune")
    assert main(["doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["findings"]
    settings = [one["told"] for one in told if one["what"] == "settings"]
    assert "CONTEXTRENDER_URL is 'foo'" in settings[0]
    assert "http://127.0.0.1:8000" in settings[0]
    assert settings[1].startswith("CONTEXTRENDER_BUDGET must be")
    assert settings[2] == "CONTEXTRENDER_POLICYY is no setting: is CONTEXTRENDER_POLICY meant?"
    assert {"data", "embedder", "service", "claude"} <= {one["what"] for one in told}
    assert main(["config"]) == 1
    shown = capsys.readouterr()
    assert "CONTEXTRENDER_URL is 'foo'" in shown.err
    assert "linger" in shown.out


def test_a_variable_that_is_no_setting_is_told_by_every_command(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONTEXTRENDER_POLICYY", "prune")
    main(["price"])
    assert "is CONTEXTRENDER_POLICY meant?" in capsys.readouterr().err
