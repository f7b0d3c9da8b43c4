"""The command as a user runs it, over the run that is shipped for the demo."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import contextrender_bridge
import pytest
from contextrender_bridge.base.wire import Json

from tests.support.command import printed

SHIPPED = Path(contextrender_bridge.__file__).parent / "data" / "demo.jsonl"


def test_a_recorded_run_is_replayed(tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    few = ("--workers", "1", "--limit", "9")
    told = json.loads(printed("audit", SHIPPED, "--html", page, "--json", *few))
    calls = sum(
        message["role"] == "assistant"
        for line in SHIPPED.read_text().splitlines()
        for message in json.loads(line)["messages"]
    )
    assert told["replayed"] == {"runs": 1, "calls": 9, "left_out": calls - 9}
    best = told["verdict"]["best"]
    assert best is None or best["budget"] == "auto"  # which is what wrap does
    assert {option["budget"] for option in told["verdict"]["options"]} == {
        *(6000, 12000, 24000, 48000, "auto")
    }
    text = page.read_text()
    assert "<script" not in text and "What to use" in text


def test_nothing_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ("XDG_", "CLAUDE_", "CODEX_", "HERMES_", "OPENCLAW_")
    for name in [name for name in os.environ if name.startswith(own)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert f"{tmp_path}/.claude" in printed("audit", status=1)
    said = printed("audit", "--agent", "hermes", status=1)
    assert said == f"contextrender: there are no runs in {tmp_path}/.hermes.\n"


@pytest.fixture
def claude_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], Path]:
    """Writes the lines of Claude Code's only session; where a page may be written."""

    def write(lines: list[str]) -> Path:
        session = tmp_path / "projects" / "p" / "s.jsonl"
        session.parent.mkdir(parents=True)
        session.write_text("\n".join(lines))
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
        return tmp_path / "audit.html"

    return write


def test_what_a_compaction_lost_is_told(claude_left: Callable[[list[str]], Path]) -> None:
    """The first of two values is in the summary; the agent reads the second again."""
    use = {"type": "tool_use", "name": "read", "input": {"path": "a"}}
    told = "TOKEN_ALPHA TOKEN_BETA"

    def line(number: int, role: str, *blocks: Json, **more: object) -> str:
        message = {"role": role, "content": list(blocks), "id": f"m{number}", "model": "claude-x"}
        return json.dumps({"type": role, "uuid": str(number), "message": message, **more})

    def call(number: int) -> list[str]:
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": told}
        return [
            line(number, "assistant", use | {"id": f"c{number}"}),
            line(number + 1, "user", result),
        ]

    def text(words: str) -> Json:
        return {"type": "text", "text": words}

    lines = [
        line(1, "user", text("Go.")),
        *call(2),
        line(4, "assistant", text("Seen.")),
        json.dumps({"type": "system", "subtype": "compact_boundary"}),
        line(5, "user", text("TOKEN_ALPHA matters."), isCompactSummary=True),
        line(6, "assistant", text("TOKEN_ALPHA it is.")),
        *call(7),
        line(9, "assistant", text("And TOKEN_BETA.")),
    ]
    page = claude_left(lines)
    words = ["audit", "--agent", "claude", "--workers", "1"]
    lost = json.loads(printed(*words, "--json", "--html", page))["compactions"]
    assert (lost["count"], lost["steps"]) == (1, 2)
    assert (lost["summary_had_all"], lost["read_again"]) == (0.5, 1)
    assert set(lost["shown"].values()) == {1} and "24000" in lost["shown"]
    assert lost["read_again_calls"] == 1 and lost["read_again_tokens"] > 0
    assert "<meter" in page.read_text()
    assert "held all that 50% of them needed" in printed(*words).replace("\n", " ")


def test_what_pauses_cost(claude_left: Callable[[list[str]], Path]) -> None:
    """A cache is written anew after ten minutes, at a resume and after a compaction."""

    def answer(number: int, minute: int, read: int, written: int) -> str:
        cache = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
        usage = {"input_tokens": 0, "output_tokens": 0, **cache}
        text = [{"type": "text", "text": f"Step {number}."}]
        message = {"role": "assistant", "id": f"m{number}", "content": text, "usage": usage}
        record = {
            "type": "assistant",
            "uuid": f"u{number}",
            "timestamp": f"2026-10-01T10:{minute}:00Z",
        }
        return json.dumps({**record, "message": {**message, "model": "claude-sonnet-4-5"}})

    resumed = {"type": "progress", "data": {"hookName": "SessionStart:resume"}}
    lines = [
        answer(1, 10, 0, 8_000),
        answer(2, 11, 8_000, 2_000),
        answer(3, 21, 1_000, 11_000),  # of these 9,000 were in the cache before
        json.dumps(resumed),
        answer(4, 22, 2_000, 10_500),  # 10,000
        json.dumps({"type": "system", "subtype": "compact_boundary"}),
        answer(5, 23, 0, 4_000),
    ]
    page = claude_left(lines)
    told = json.loads(printed("audit", "--agent", "claude", "--json", "--html", page))
    (bill,) = told["bills"]
    written = 3.75e-6
    assert told["pauses"] == {
        "lifetime": pytest.approx(9_000 * written / bill["dollars"]),
        "resume": pytest.approx(10_000 * written / bill["dollars"]),
        "compaction": pytest.approx(4_000 * written / bill["dollars"]),
    }
    assert page.read_text().count("<meter") == 3
    assert "was a cache written anew: " in printed("audit", "--agent", "claude")
