"""`contextrender doctor` on machines with complete, wrong and missing setups."""

import json
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from contextrender_bridge.cli import doctor

from tests.support.command import contextrender, printed


def findings(status: int) -> dict[str, dict[str, str]]:
    process = contextrender("doctor", "--json")
    report = json.loads(process.stdout)
    assert process.returncode == status
    assert report["ok"] == (status == 0)
    return {finding["check"]: finding for finding in report["findings"]}


@pytest.fixture
def machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty home folder without programs and settings."""
    for name in list(os.environ):
        if name.startswith(("CONTEXTRENDER_", "CTXGRAPH_", "OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(home / "bin"))
    return home


def test_doctor_on_new_machine(machine: Path) -> None:
    by_check = findings(0)
    assert by_check["tokenizer"]["state"] == by_check["embedder"]["state"] == "ok"
    assert "serve" in by_check["service"]["advice"]
    assert "npm install" in by_check["claude"]["advice"]
    assert not (machine / ".local").exists()


def test_doctor_names_agent_and_provider(machine: Path) -> None:
    (machine / "bin").mkdir()
    (machine / "bin" / "claude").write_text("#!/bin/sh\n")
    (machine / "bin" / "claude").chmod(0o755)
    (machine / ".claude").mkdir()
    claude_settings = {"env": {"ANTHROPIC_BASE_URL": "https://gateway.test"}}
    (machine / ".claude" / "settings.json").write_text(json.dumps(claude_settings))
    claude = findings(0)["claude"]
    assert "https://gateway.test/v1" in claude["message"]
    assert claude["advice"] == "contextrender wrap claude"


def test_doctor_names_data_folder_that_is_a_file(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine / "data").write_text("")
    monkeypatch.setenv("CONTEXTRENDER_DATA", str(machine / "data"))
    assert "is a file" in findings(1)["data"]["message"]


def test_doctor_names_missing_part_and_its_extra(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_version(name: str) -> str:
        if name == "mcp":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "version", find_version)
    parts = findings(0)["parts"]
    assert parts["message"] == "not installed: mcp"
    assert "[mcp]" in parts["advice"]


def test_doctor_prints_text(machine: Path) -> None:
    assert printed("doctor").startswith("ok    python")


def test_command_without_arguments_prints_help() -> None:
    assert "  wrap " in printed()


def test_doctor_continues_after_invalid_settings(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXTRENDER_URL", "foo")
    monkeypatch.setenv("CONTEXTRENDER_BUDGET", "much")
    monkeypatch.setenv("CONTEXTRENDER_POLICYY", "prune")
    findings = json.loads(contextrender("doctor", "--json").stdout)["findings"]
    settings = [finding["message"] for finding in findings if finding["check"] == "settings"]
    states = [finding["state"] for finding in findings if finding["check"] == "settings"]
    assert states == ["bad", "bad", "note"]
    assert "CONTEXTRENDER_URL is 'foo'" in settings[0]
    assert "http://127.0.0.1:8000" in settings[0]
    assert settings[1].startswith("CONTEXTRENDER_BUDGET must be")
    assert (
        settings[2] == "unknown setting CONTEXTRENDER_POLICYY: did you mean CONTEXTRENDER_POLICY?"
    )
    assert {"data", "embedder", "service", "claude"} <= {finding["check"] for finding in findings}
    process = contextrender("config")
    assert process.returncode == 1
    assert "CONTEXTRENDER_URL is 'foo'" in process.stderr
    assert "idle_timeout" in process.stdout


def test_every_command_warns_of_unknown_variable(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXTRENDER_POLICYY", "prune")
    assert "did you mean CONTEXTRENDER_POLICY?" in contextrender("price").stderr
