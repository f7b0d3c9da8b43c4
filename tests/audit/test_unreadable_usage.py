"""Calls whose usage cannot be read are counted as such, never as calls that cost nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json

from tests.audit.homes import (
    CLAUDE,
    CODEX,
    OPENCODE,
    STORE,
    at,
    audit_home,
    claude,
    count,
    meta,
    sums,
    write_files,
    write_store,
)
from tests.support.command import printed


def opencode(value: Any) -> str:
    tokens = {"input": value, "output": 1, "cache": {"read": 0, "write": 0}}
    return json.dumps(
        {
            "role": "assistant",
            "time": {"created": 5},
            "modelID": "claude-opus-4-6",
            "tokens": tokens,
        }
    )


def pi(value: Any) -> list[Json]:
    usage = {"input": value, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    message = {"role": "assistant", "content": "ok", "model": "claude-opus-4-6", "usage": usage}
    return [{"type": "message", "id": "1", "timestamp": at(1), "message": message}]


def codex(value: Any) -> list[Json]:
    line = count(1, 5, 5)
    line["payload"]["info"]["last_token_usage"]["input_tokens"] = value
    return [*meta("a"), line]


def claude_line(value: Any) -> list[Json]:
    line = claude("m", "r")
    line["message"]["usage"]["input_tokens"] = value
    return [line]


UNREADABLE = ["many", [7], True, {"sum": 7}, -5]
FILES: dict[str, Any] = {
    "claude": (f"{CLAUDE}/a.jsonl", claude_line),
    "codex": (f"{CODEX}/rollout-a.jsonl", codex),
    "pi": (".pi/agent/sessions/--demo--/a.jsonl", pi),
}


def write_session(home: Path, agent: str, value: Any) -> None:
    """Write an agent's session with one call, whose input tokens are `value`."""
    if agent == "opencode":
        row = f"insert into message values('m', 's', 5, '{opencode(value)}')"
        write_store(home, f"{OPENCODE}/opencode.db", *STORE, row)
    else:
        name, make = FILES[agent]
        write_files(home, {name: make(value)})


@pytest.mark.parametrize("value", UNREADABLE)
@pytest.mark.parametrize("agent", [*FILES, "opencode"])
def test_unreadable_usage_is_counted(home: Path, agent: str, value: Any) -> None:
    write_session(home, agent, value)
    audit = audit_home(home)
    assert sums(audit) == (0, 0)
    assert audit.counts["calls without usage"] == 1
    assert audit.sentences == ["Calls without readable usage, whose cost is unknown: 1."]


@pytest.mark.parametrize("value", [70, 70.0, "70", "70.0"])
@pytest.mark.parametrize("agent", [*FILES, "opencode"])
def test_unusual_numbers_are_read(home: Path, agent: str, value: Any) -> None:
    write_session(home, agent, value)
    audit = audit_home(home)
    assert sums(audit) == (1, 70)
    assert audit.sentences == []


def test_copy_with_usage_counts(home: Path) -> None:
    files = {f"{CLAUDE}/a.jsonl": claude_line("many"), f"{CLAUDE}/b.jsonl": claude_line(70)}
    audit = audit_home(home, files)
    assert sums(audit) == (1, 70)
    assert audit.sentences == []
    write_files(home, {f"{CLAUDE}/c.jsonl": [claude("n", "s", tokens=0), *claude_line(None)]})
    assert "Calls without readable usage" not in printed("audit", "--workers", "1")
