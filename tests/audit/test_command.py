"""`contextrender audit` on the run that is shipped for the demo, and on Claude Code sessions."""

import json
from collections.abc import Callable
from pathlib import Path

import contextrender_bridge
import pytest
from contextrender_bridge.base.wire import Json

from tests.audit.test_readers import answer_line, result, use, user_line, write
from tests.support.command import printed

SHIPPED = Path(contextrender_bridge.__file__).parent / "data" / "demo.jsonl"


def test_recorded_run_is_replayed(tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    few = ("--workers", "1", "--limit", "9")
    report = json.loads(printed("audit", SHIPPED, "--html", page, "--json", *few))
    calls = sum(
        message["role"] == "assistant"
        for line in SHIPPED.read_text().splitlines()
        for message in json.loads(line)["messages"]
    )
    assert report["replayed"] == {"runs": 1, "calls": 9, "left_out": calls - 9, "sent_shortened": 0}
    best = report["verdict"]["best"]
    assert best is None or best["budget"] == "auto"  # which is what wrap does
    assert {option["budget"] for option in report["verdict"]["options"]} == {
        *(6000, 12000, 24000, 48000, "auto")
    }
    text = page.read_text()
    assert "<script" not in text and "What to use" in text


def test_missing_runs_are_an_error(home: Path) -> None:
    assert f"{home}/.claude" in printed("audit", status=1)
    output = printed("audit", "--agent", "hermes", status=1)
    assert output == f"contextrender: there are no runs in {home}/.hermes.\n"


@pytest.mark.parametrize("command", ["audit", "open"])
def test_file_without_json_is_named_with_its_damaged_lines(command: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text("not JSON\nat all\n")
    output = printed(command, str(path), status=1)
    assert f"{path}" in output and "2 damaged lines of 2 lines" in output


BOUNDARY = {"type": "system", "subtype": "compact_boundary"}
Leave = Callable[..., Path]


@pytest.fixture
def write_claude_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Leave:
    """Return a function that writes the only session of Claude Code and returns a path for the
    report."""

    def write_lines(*lines: Json) -> Path:
        write(tmp_path / "projects" / "p" / "s.jsonl", *lines)
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
        return tmp_path / "audit.html"

    return write_lines


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def test_report_has_losses_of_a_compaction(write_claude_session: Leave) -> None:
    """The summary has the first of two values; the agent reads the second one again."""

    def call(id: str) -> list[Json]:
        tool_use = use(id) | {"input": {"path": "a"}}
        read = result(id) | {"content": "TOKEN_ALPHA TOKEN_BETA"}
        return [answer_line(f"{id}1", f"m{id}", tool_use, 1), user_line(f"{id}2", [read])]

    page = write_claude_session(
        user_line("1", "Go."),
        *call("2"),
        answer_line("4", "m4", text("Seen."), 1),
        BOUNDARY,
        user_line("5", "TOKEN_ALPHA matters.") | {"isCompactSummary": True},
        answer_line("6", "m6", text("TOKEN_ALPHA it is."), 1),
        *call("7"),
        answer_line("9", "m9", text("And TOKEN_BETA."), 1),
    )
    words = ["audit", "--agent", "claude", "--workers", "1"]
    compactions = json.loads(printed(*words, "--json", "--html", page))["compactions"]
    assert (compactions["count"], compactions["steps"]) == (1, 2)
    assert (compactions["summary_had_all"], compactions["read_again"]) == (0.5, 1)
    assert set(compactions["shown"].values()) == {1} and "24000" in compactions["shown"]
    assert compactions["read_again_calls"] == 1 and compactions["read_again_tokens"] > 0
    assert set(compactions["avoided"].values()) == {0}, "so short a history is sent in full"
    assert "<meter" in page.read_text()
    runs = page.with_name("runs.jsonl")
    printed(*words[:3], "--runs", runs)
    output = printed("eval", runs, "--compaction", "--workers", "1", "--out", page.parent)
    assert "of 2 after 1 compaction in 1 session" in output
    session = page.parent / "projects" / "p" / "s.jsonl"
    replayed = printed("replay", session, "--policy", "prune", "--workers", "1")
    assert "After 1 compaction by the agent: 2 steps" in replayed
    report = printed(*words).replace("\n", " ")
    assert "For 50% of them the agent's summary and the files put back held every" in report


def test_report_has_costs_of_pauses(write_claude_session: Leave) -> None:
    """The cache is rewritten after ten minutes, at a resume and after a compaction."""

    def answer(number: int, minute: int, cache_read: int, cache_write: int) -> Json:
        row = answer_line(f"u{number}", f"m{number}", text(f"Step {number}."), 0)
        cache = {"cache_read_input_tokens": cache_read, "cache_creation_input_tokens": cache_write}
        usage = {"input_tokens": 0, "output_tokens": 0, **cache}
        row["message"] |= {"model": "claude-sonnet-4-5", "usage": usage}
        return row | {"timestamp": f"2026-10-01T10:{minute}:00Z"}

    page = write_claude_session(
        answer(1, 10, 0, 8_000),
        answer(2, 11, 8_000, 2_000),
        answer(3, 21, 1_000, 11_000),  # 9,000 of these were cached before
        {"type": "progress", "data": {"hookName": "SessionStart:resume"}},
        answer(4, 22, 2_000, 10_500),  # 10,000
        BOUNDARY,
        answer(5, 23, 0, 4_000),
    )
    report = json.loads(printed("audit", "--agent", "claude", "--json", "--html", page))
    (bill,) = report["bills"]
    price = 3.75e-6
    assert report["pauses"] == {
        "lifetime": pytest.approx(9_000 * price / bill["dollars"]),
        "resume": pytest.approx(10_000 * price / bill["dollars"]),
        "compaction": pytest.approx(4_000 * price / bill["dollars"]),
    }
    assert page.read_text().count("<meter") == 3
    assert "of the cost was for writing a cache again: " in printed("audit", "--agent", "claude")
