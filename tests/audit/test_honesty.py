"""Limits of `audit`: encrypted summaries, short runs and runs with several providers."""

import json
from pathlib import Path

import pytest
from contextrender_bridge.audit.replay import is_sent_shortened
from contextrender_bridge.audit.run_reader import RecordedRun
from contextrender_bridge.audit.transcripts import read_transcripts
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.wire import Json
from contextrender_bridge.evaluation.compactions import measure_sample
from contextrender_bridge.evaluation.runs import Run, compactions_of

from tests.audit.homes import CLAUDE, CODEX, at, claude, meta, write_files
from tests.audit.test_readers import answer_line, result, use, user_line
from tests.support.command import printed
from tests.support.transcripts import assistant, step, user

BOUNDARY: Json = {"type": "system", "subtype": "compact_boundary"}


def single_line(text: str) -> str:
    return " ".join(text.split())


def item(kind: str, minute: int = 0, **payload: object) -> Json:
    return {"timestamp": at(minute), "type": "response_item", "payload": {"type": kind, **payload}}


def codex_message(role: str, text: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}])


def codex_step(id: str, output: str) -> list[Json]:
    return [
        item("function_call", call_id=id, name="look", arguments="{}"),
        item("function_call_output", call_id=id, output=output),
    ]


def compaction_record(summary: str, *history: Json) -> Json:
    payload = {"message": summary, "replacement_history": [item["payload"] for item in history]}
    return {"timestamp": at(5), "type": "compacted", "payload": payload}


TASK = codex_message("user", "Find the fault.")
BEFORE = [*meta("a"), TASK, *codex_step("a", "TOKEN_ALPHA"), codex_message("assistant", "Seen.")]
AFTER = [codex_message("assistant", "It is TOKEN_ALPHA."), *codex_step("b", "well")]
WORDS = codex_message(
    "user", "Another language model produced a summary of its thinking process: TOKEN_ALPHA"
)


def test_encrypted_codex_summary_is_not_measured(home: Path) -> None:
    hidden = compaction_record("", TASK, item("compaction", encrypted_content="xyz"))
    write_files(home, {f"{CODEX}/rollout-a.jsonl": [*BEFORE, hidden, *AFTER]})
    output = single_line(printed("audit", "--workers", "1"))
    assert "For 1 of them the agent's files have no summary as text (Codex encrypts it)" in output
    assert "held every value used" not in output


@pytest.mark.parametrize(
    "record", [compaction_record("TOKEN_ALPHA matters."), compaction_record("", TASK, WORDS)]
)
def test_plain_codex_summary_is_measured(home: Path, record: Json) -> None:
    write_files(home, {f"{CODEX}/rollout-a.jsonl": [*BEFORE, record, *AFTER]})
    compactions = json.loads(printed("audit", "--json", "--workers", "1"))["compactions"]
    assert (
        compactions["hidden_summaries"],
        compactions["steps"],
        compactions["summary_had_all"],
    ) == (0, 1, 1)


def claude_row(role: str, block: Json, id: str, **fields: object) -> Json:
    row = claude(id, f"r{id}")
    row["message"] |= {"role": role, "content": [block]}
    return {**row, "type": role, "uuid": id, **fields}


def claude_session(version: str, *put_back: Json) -> list[Json]:
    read: Json = {"type": "tool_use", "id": "a", "name": "Read", "input": {"file_path": "a.py"}}
    result: Json = {"type": "tool_result", "tool_use_id": "a", "content": "TOKEN_ALPHA"}
    summary: Json = {"type": "text", "text": "All is well."}
    answer: Json = {"type": "text", "text": "It is TOKEN_ALPHA."}
    return [
        claude_row("user", {"type": "text", "text": "Go."}, "1"),
        claude_row("assistant", read, "2"),
        claude_row("user", result, "3"),
        BOUNDARY,
        claude_row("user", summary, "4", isCompactSummary=True),
        *put_back,
        claude_row("assistant", answer, "5", version=version),
    ]


PUT_BACK: Json = {
    "type": "attachment",
    "uuid": "x",
    "attachment": {
        "type": "file",
        "filename": "a.py",
        "content": {"type": "text", "file": {"filePath": "a.py", "content": "TOKEN_ALPHA"}},
    },
}


@pytest.mark.parametrize(
    ("version", "put_back", "share", "estimate_count"),
    [("2.1.217", [PUT_BACK], 1, 0), ("2.1.220", [], 0, 0), ("2.1.197", [], 1, 1), ("", [], 1, 1)],
)
def test_files_restored_by_claude_code_count(
    home: Path, version: str, put_back: list[Json], share: float, estimate_count: int
) -> None:
    write_files(home, {f"{CLAUDE}/a.jsonl": claude_session(version, *put_back)})
    compactions = json.loads(printed("audit", "--json", "--workers", "1"))["compactions"]
    assert (compactions["summary_had_all"], compactions["estimated"]) == (share, estimate_count)
    output = single_line(printed("audit", "--workers", "1"))
    assert ("did not record which files" in output) == bool(estimate_count)


def test_compaction_that_a_fork_copied_is_estimated_once(home: Path) -> None:
    session = claude_session("2.1.197")
    answer: Json = {"type": "text", "text": "In the fork it is TOKEN_ALPHA."}
    fork = [*session[:-1], claude_row("assistant", answer, "6", version="2.1.197")]
    write_files(home, {f"{CLAUDE}/a.jsonl": session, f"{CLAUDE}/b.jsonl": fork})
    output = single_line(printed("audit", "--workers", "1"))
    assert "Compactions by the agents: 1. For 1 of them Claude Code did not record" in output


def test_random_sample_of_compactions_is_measured() -> None:
    runs = []
    for number in range(6):
        name = f"TOKEN_{number}"
        before = [user("Go."), *step("a", "look", "{}", name), assistant("Seen.")]
        summary = name if number < 3 else "nothing"
        after = [user(f"Summary {number}: {summary}"), assistant(f"It is {name}.")]
        runs += [
            Run(f"{number}#1", "", "", before),
            Run(f"{number}#2", "", "", after, continues=f"{number}#1"),
        ]
    compactions = compactions_of(runs)
    score = measure_sample(compactions, 1, limit=3)
    assert (score.count, score.measured, score.steps["all"]) == (6, 3, 3)
    assert 0 < (score.share("summary") or 0) < 1  # not only the first or the last three
    assert measure_sample(compactions, 1, limit=3).steps == score.steps


def long_run(prompt: int) -> RecordedRun:
    words = "plain words " * 4_000
    messages = [user("Go."), *step("a", "look", "{}", words), assistant("Done.")]
    return RecordedRun("a", "s", "a", "m", messages, usage=[Usage("m", 9), Usage("m", prompt)])


def test_run_with_rendered_prompts_is_recognised() -> None:
    assert is_sent_shortened(long_run(5_000))
    assert not is_sent_shortened(long_run(9_000))
    assert not is_sent_shortened(RecordedRun("a", "s", "a", "m", [user("Go."), assistant("Done.")]))


def shortened_runs(has_other_run: bool) -> dict[str, list[Json]]:
    """Return the files of a run that `wrap` shortened, and of a run without results to omit."""
    long_result = [result("a") | {"content": "plain words " * 4_000}]
    calls = [
        answer_line("2", "m1", use("a"), 1),
        user_line("3", long_result),
        answer_line("4", "m2", use("b"), 1),
    ]
    files = {"wrapped.jsonl": [user_line("1", "Go."), *calls]}
    if has_other_run:
        files["other.jsonl"] = [user_line("5", "Hello."), answer_line("6", "m3", use("c"), 1)]
    return files


@pytest.mark.parametrize("has_other_run", [False, True])
def test_audit_of_shortened_runs_has_advice(home: Path, has_other_run: bool) -> None:
    """Runs that `wrap` shortened cannot be replayed, although they had results to omit."""
    write_files(
        home, {f"{CLAUDE}/{name}": run for name, run in shortened_runs(has_other_run).items()}
    )
    output = single_line(printed("audit", "--workers", "1"))
    has_advice = "run: contextrender wrap --observe AGENT" in output
    assert has_advice is not has_other_run and "1 runs" not in output
    if has_other_run:
        assert "The prompts of 1 run were already shortened" in output
        assert "No other run has tool results to omit" in output
    else:
        assert "The prompts of all runs found were already shortened" in output
        assert "No run has tool results" not in output


@pytest.mark.parametrize("has_other_run", [False, True])
def test_shortened_runs_are_left_out_of_a_replay(
    tmp_path: Path, has_other_run: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path, shortened_runs(has_other_run))
    if has_other_run:
        assert len(read_transcripts([tmp_path])) == 1
        assert "1 run in" in capsys.readouterr().err
    else:
        with pytest.raises(CommandError, match="no runs to replay"):
            read_transcripts([tmp_path])


def test_short_runs_of_two_providers_get_separate_verdicts(tmp_path: Path) -> None:
    messages = [user("Go."), *step("a", "look", "{}", "seen"), assistant("Done.")]
    models = ("claude-opus-4-6", "gpt-5.1")
    runs = [json.dumps({"id": model, "model": model, "messages": messages}) for model in models]
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(runs))
    output = single_line(printed("audit", path, "--workers", "1"))
    for name in ("Anthropic", "OpenAI"):
        assert f"{name}: The longest history of these runs is" in output
    assert output.count("pays from about 50,000. Do not use it for such runs.") == 2
    report = json.loads(printed("audit", path, "--json", "--workers", "1"))
    assert set(report["verdicts"]) == {"anthropic", "openai"}
