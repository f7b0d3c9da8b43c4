"""Stores of Hermes and OpenClaw with compactions and damage.

Tests in `adapters/` read stores that the programs have written; these are made with their
tables.
"""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import zstandard
from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.hermes import read_hermes
from contextrender_bridge.audit.openclaw import read_openclaw
from contextrender_bridge.audit.run_costs import costs_by_model
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.wire import Json

from tests.support.transcripts import call

HERMES = """
create table sessions (id text, model text, parent_session_id text);
create table messages (id integer primary key, session_id text, role text, content text,
    tool_calls text, tool_call_id text, timestamp real, active integer, compacted integer);
create table session_model_usage (session_id text, model text, task text, api_call_count integer,
    input_tokens integer, cache_read_tokens integer, cache_write_tokens integer,
    output_tokens integer);
insert into sessions values ('s', 'm', null);
insert into session_model_usage values ('s', 'm', '', 3, 30, 6, 3, 12);
insert into session_model_usage values ('s', 'm', 'title', 1, 5, 0, 0, 1);
"""
OPENCLAW = """
create table transcript_events (session_id text, seq integer, event_json text, event_zstd blob);
"""
CALL = [call("a", "look")]


def hermes(home: Path, *rows: tuple[object, ...]) -> AuditInput:
    """Read a store with these rows: role, content, calls, call's id, active, compacted."""
    with closing(sqlite3.connect(home / "state.db")) as store:
        store.executescript(HERMES)
        for number, (role, content, calls, id, active, compacted) in enumerate(rows, 1):
            values = (number, "s", role, content, calls, id, 1e9 + number, active, compacted)
            store.execute("insert into messages values (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        store.commit()
    audit = AuditInput()
    read_hermes(home, audit)
    return audit.merge_copies()


def roles(audit_input: AuditInput) -> list[list[str]]:
    return [[message["role"] for message in run.messages] for run in audit_input.runs]


def test_hermes_compacted_messages_are_separate_run_and_count_once(tmp_path: Path) -> None:
    audit = hermes(
        tmp_path,
        ("user", "Look.", None, None, 0, 1),
        ("assistant", None, json.dumps(CALL), None, 0, 1),
        ("tool", "seen a", None, "a", 0, 1),
        ("user", "So far: all is well.", None, None, 1, 0),
        ("user", "Taken back.", None, None, 0, 0),
        ("assistant", "Done.", None, None, 1, 0),
    )
    assert roles(audit) == [["user", "assistant", "tool"], ["user", "assistant"]]
    assert audit.runs[0].messages[1]["tool_calls"] == CALL
    (bill,) = costs_by_model(audit.runs)
    assert (bill.calls, bill.prompt, bill.cache_read, bill.output) == (4, 44, 6, 13)


def test_damage_in_hermes_store_is_counted(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "Look."}]
    audit = hermes(
        tmp_path,
        ("user", f"\0json:{json.dumps(parts)}", None, None, 1, 0),
        ("assistant", "Well.", "{broken", None, 1, 0),
    )
    (run,) = audit.runs
    assert run.messages[0]["content"] in ("Look.", parts)
    assert "tool_calls" not in run.messages[1]
    assert (audit.counts["lines"], audit.counts["damaged lines"]) == (2, 1)


def event(id: str, role: str, content: object, **fields: object) -> Json:
    message = {"role": role, "content": content, **fields}
    time = "2026-11-22T12:00:00.000Z"
    return {"type": "message", "id": id, "timestamp": time, "message": message}


def openclaw(home: Path, *events: object) -> AuditInput:
    """Read a store with these events. Every second one is compressed, as OpenClaw compresses
    large events."""
    path = home / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as store:
        store.executescript(OPENCLAW)
        for number, event_or_text in enumerate(events):
            text = event_or_text if isinstance(event_or_text, str) else json.dumps(event_or_text)
            compressed_text = zstandard.compress(text.encode()) if number % 2 else None
            row = ("s", number, None if compressed_text else text, compressed_text)
            store.execute("insert into transcript_events values (?, ?, ?, ?)", row)
        store.commit()
    audit = AuditInput()
    read_openclaw(home, audit)
    return audit.merge_copies()


def test_openclaw_compaction_starts_new_run_with_kept_messages(tmp_path: Path) -> None:
    usage = {"input": 3, "output": 2, "cacheRead": 5, "cacheWrite": 1, "totalTokens": 11}
    calls = [{"type": "toolCall", "id": "a", "name": "look", "arguments": {"at": 1}}]
    answer = event("4", "assistant", [{"type": "text", "text": "Done."}], model="m", usage=usage)
    audit = openclaw(
        tmp_path,
        {"type": "session", "id": "s"},
        event("1", "user", "Look."),
        event("2", "assistant", calls, model="m", usage=usage),
        event("3", "toolResult", [{"type": "text", "text": "seen a"}], toolCallId="a"),
        "{broken",
        {"type": "compaction", "summary": "So far: well.", "firstKeptEntryId": "2"},
        answer,
        answer,
    )
    assert roles(audit)[0] == ["user", "assistant", "tool"]
    assert roles(audit)[1][:4] == ["user", "assistant", "tool", "assistant"]
    assert audit.runs[1].messages[0]["content"] == "So far: well."
    (call,) = audit.runs[1].messages[1]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"at": 1}
    assert [run.usage for run in audit.runs] == [[Usage("m", 3, 5, 1, output=2)]] * 2
    assert audit.counts["damaged lines"] == 1


@pytest.mark.parametrize(
    ("read", "file"),
    [(read_hermes, "state.db"), (read_openclaw, "agents/main/agent/openclaw-agent.sqlite")],
)
def test_invalid_store_is_counted(
    tmp_path: Path, read: Callable[[Path, AuditInput], None], file: str
) -> None:
    audit = AuditInput()
    read(tmp_path, audit)
    assert not audit.counts
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("no database" * 99)
    read(tmp_path, audit)
    assert audit.counts == {"files": 1, "unreadable files": 1}
