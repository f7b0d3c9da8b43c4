"""`contextrender open` reads any session file and diagnoses it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from contextrender_bridge.base.wire import Json
from contextrender_bridge.evaluation.diagnosis import diagnose
from contextrender_bridge.evaluation.runs import Run

from tests.audit.homes import (
    CLAUDE,
    CODEX,
    OPENCODE,
    STORE,
    claude,
    opencode_row,
    write_files,
    write_store,
)
from tests.audit.test_honesty import AFTER, BEFORE, PUT_BACK, claude_session, compaction_record
from tests.audit.test_stores import HERMES, event, openclaw
from tests.support.command import printed
from tests.support.transcripts import assistant, step, user

FULL_HISTORY = [
    user("Find the fault."),
    *step("a", "look", '{"at": "x"}', "TOKEN_ALPHA and TOKEN_BETA"),
    assistant("Seen."),
]


def open_sessions(*paths: Path) -> list[Json]:
    sessions: list[Json] = json.loads(printed("open", *paths, "--json"))["sessions"]
    return sessions


def compacted_run(*after: Json, summary: str = "Nothing.") -> list[Run]:
    model = "claude-sonnet-4-5"
    return [
        Run("s#1", "", model, FULL_HISTORY),
        Run("s#2", "", model, [user(summary), *after], continues="s#1"),
    ]


def test_diagnosis_names_value_that_was_read_again() -> None:
    later_steps = [
        assistant("I look further."),
        *step("b", "look", '{"at": "x"}', "TOKEN_ALPHA and TOKEN_BETA"),
        assistant("It is TOKEN_ALPHA."),
    ]
    diagnosis = diagnose(compacted_run(*later_steps))
    (loss,) = diagnosis.losses
    assert (loss.turn, loss.read_turn, loss.dropped_turn, loss.repeated_turn) == (4, 1, 2, 4)
    assert loss.tokens > 0 and loss.dollars == pytest.approx(loss.tokens * 3e-6)
    assert diagnosis.sentence.startswith('Turn 4 asked again for look {"at": "x"} (TOKEN_ALPHA)')
    assert "read at turn 1" in diagnosis.sentence and "dropped at turn 2" in diagnosis.sentence
    assert diagnosis.turns == 5


def test_diagnosis_names_value_used_after_loss() -> None:
    diagnosis = diagnose(compacted_run(assistant("It is TOKEN_ALPHA or TOKEN_BETA.")))
    assert diagnosis.sentence.startswith(
        "Turn 3 used TOKEN_ALPHA, TOKEN_BETA, which its prompt no longer had."
    )


def test_diagnosis_sums_several_losses() -> None:
    before = [
        user("Go."),
        *step("a", "look", "1", "TOKEN_ALPHA"),
        *step("c", "see", "2", "TOKEN_C"),
    ]
    after = [
        user("Nothing."),
        *step("b", "look", "1", "TOKEN_ALPHA"),
        assistant("TOKEN_ALPHA."),
        assistant("And TOKEN_C."),
    ]
    diagnosis = diagnose([Run("s#1", "", "", before), Run("s#2", "", "", after, continues="s#1")])
    assert [loss.kind for loss in diagnosis.losses] == ["asked again", "used"]
    assert "In all, a value was missing 2 times; read again: 1 result, " in diagnosis.sentence


def test_diagnosis_without_losses() -> None:
    assert "the agent never compacted" in diagnose([Run("s", "", "", FULL_HISTORY)]).sentence
    diagnosis = diagnose(
        compacted_run(assistant("It is TOKEN_ALPHA."), summary="TOKEN_ALPHA matters.")
    )
    assert diagnosis.sentence.startswith("Nothing was lost: after 1 compaction ")


def leave_claude(home: Path) -> Path:
    return write_files(home, {f"{CLAUDE}/a.jsonl": claude_session("2.1.220")}) / f"{CLAUDE}/a.jsonl"


def leave_codex(home: Path) -> Path:
    lines = [*BEFORE, compaction_record("Nothing."), *AFTER]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return (
        write_files(home, {"rollout-a.jsonl.zst": zstandard.compress(text)}) / "rollout-a.jsonl.zst"
    )


def leave_opencode(home: Path) -> Path:
    return write_store(home, "copy.db", *STORE, opencode_row("msg_1", "ses_a", 1000, 30))


def leave_openclaw(home: Path) -> Path:
    openclaw(home, event("1", "user", "Look."), event("2", "assistant", "Seen."))
    return home / "agents" / "main" / "agent" / "openclaw-agent.sqlite"


def leave_hermes(home: Path) -> Path:
    row = "insert into messages values (1, 's', 'assistant', 'Seen.', null, null, 1, 1, 0)"
    return write_store(home, "state.db", *[*filter(str.strip, HERMES.split(";")), row])


def leave_pi(home: Path) -> Path:
    head = {"type": "session", "id": "s", "version": 3}
    lines = [head, event("1", "user", "Look."), event("2", "assistant", "Seen.")]
    return write_files(home, {"any.jsonl": lines}) / "any.jsonl"


def leave_log(home: Path) -> Path:
    request = {"model": "m", "messages": [{"role": "user", "content": "Look."}]}
    answer = {"choices": [{"message": {"role": "assistant", "content": "Seen."}}]}
    return (
        write_files(home, {"log.jsonl": [{"request": request, "response": answer}]}) / "log.jsonl"
    )


@pytest.mark.parametrize(
    ("make", "source"),
    [
        (leave_claude, "Claude Code"),
        (leave_codex, "Codex"),
        (leave_opencode, "opencode"),
        (leave_openclaw, "OpenClaw"),
        (leave_hermes, "Hermes"),
        (leave_pi, "pi"),
        (leave_log, "file"),
    ],
)
def test_each_agents_file_is_opened_in_any_folder(
    tmp_path: Path, make: Callable[[Path], Path], source: str
) -> None:
    path = make(tmp_path / "home")
    (open_session,) = open_sessions(path)
    assert open_session["source"] == source
    copy = tmp_path / "copies" / "deep" / path.name
    copy.parent.mkdir(parents=True)
    shutil.copy(path, copy)
    assert open_sessions(tmp_path / "copies") == [open_session]
    if make in (leave_claude, leave_codex):
        assert "TOKEN_ALPHA, which its prompt no longer had" in printed("open", path)


def test_file_restored_by_claude_code_is_no_loss(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.jsonl": claude_session("2.1.220", PUT_BACK)})
    assert "Nothing was lost" in printed("open", tmp_path / "a.jsonl")


def test_export_is_opened(tmp_path: Path) -> None:
    export = {
        "format": "contextrender.session/3",
        "session": "s",
        "branches": [
            {
                "parent": -1,
                "fork_position": 0,
                "messages": FULL_HISTORY,
                "calls": [{"model": "gpt-5.1"}],
            },
            {"parent": -1, "fork_position": 0, "messages": [user("-"), assistant("TOKEN_ALPHA")]},
            {"parent": 0, "fork_position": 1, "messages": [assistant("Another.")]},
        ],
    }
    path = tmp_path / "s.json"
    path.write_text(json.dumps(export))
    (open_session,) = open_sessions(path)
    assert open_session["source"] == "ContextRender" and open_session["model"] == "gpt-5.1"
    assert [loss["turn"] for loss in open_session["losses"]] == [3]


def test_newest_sessions_are_opened_by_default(home: Path) -> None:
    assert "there are no sessions in" in printed("open", status=1)
    write_files(home, {f"{CLAUDE}/a.jsonl": [claude("m", "r")]})
    write_files(home, {f"{CODEX}/rollout-a.jsonl": BEFORE})
    write_store(home, f"{OPENCODE}/opencode.db", *STORE, opencode_row("msg_1", "ses_a", 1000, 30))
    assert len(open_sessions()) == 3
    output = printed("open", "--limit", "1")
    assert output.count(" · ") >= 1 and "Codex" in output
