"""The command as a user runs it, over the run that is shipped for the demo."""

import json
import os
from pathlib import Path

import contextrender_bridge
import pytest
from contextrender_bridge.cli import main

SHIPPED = Path(contextrender_bridge.__file__).parent / "data" / "demo.jsonl"


def test_a_recorded_run_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "audit.html"
    words = ["audit", str(SHIPPED), "--workers", "1", "--html", str(page), "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    calls = sum(
        message["role"] == "assistant"
        for line in SHIPPED.read_text().splitlines()
        for message in json.loads(line)["messages"]
    )
    assert told["replayed"] == {"runs": told["runs"], "calls": calls, "left_out": 0}
    assert {option["budget"] for option in told["verdict"]["options"]} == {
        *(6000, 12000, 24000, 48000)
    }
    text = page.read_text()
    assert "<script" not in text and "What to use" in text


def test_nothing_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ("XDG_", "CLAUDE_", "CODEX_", "HERMES_", "OPENCLAW_")
    for name in [name for name in os.environ if name.startswith(own)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["audit"]) == 1
    assert f"{tmp_path}/.claude" in capsys.readouterr().err
    assert main(["audit", "--agent", "hermes"]) == 1
    assert capsys.readouterr().err == f"contextrender: there are no runs in {tmp_path}/.hermes.\n"
