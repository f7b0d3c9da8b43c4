"""Home folders as agents write them, and `contextrender audit` on them."""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.command import READERS, homes
from contextrender_bridge.audit.run_costs import costs_by_model
from contextrender_bridge.base.wire import Json

CODEX = ".codex/sessions/2026/11/01"
CLAUDE = ".claude/projects/demo"
OPENCODE = ".local/share/opencode"
STORE = (
    "create table message(id text, session_id text, time_created int, data text)",
    "create table part(id text, message_id text, data text)",
)


def write_files(home: Path, files: Mapping[str, Any]) -> Path:
    """Write files below a home: lists are JSON Lines."""
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_text(content)
        else:
            path.write_text("".join(json.dumps(line) + "\n" for line in content))
    return home


def write_store(home: Path, name: str, *statements: str) -> Path:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as store:
        for statement in statements:
            store.execute(statement)
        store.commit()
    return path


def audit_home(home: Path, files: Mapping[str, Any] | None = None) -> AuditInput:
    """Write these files, and read this home as `contextrender audit` does."""
    write_files(home, files or {})
    audit = AuditInput()
    for name, folders in homes().items():
        for folder in folders:
            READERS[name](folder, audit)
    return audit.merge_copies()


def sums(audit_input: AuditInput) -> tuple[int, int]:
    """Return calls and prompt tokens."""
    bills = costs_by_model(audit_input.runs)
    return sum(bill.calls for bill in bills), sum(bill.prompt for bill in bills)


def dollars(audit_input: AuditInput) -> float:
    return sum(bill.dollars or 0.0 for bill in costs_by_model(audit_input.runs))


def claude(id: str, request: str = "", tokens: int = 1_000, text: str = "ok", **usage: Any) -> Json:
    message = {
        "id": id,
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": [{"type": "text", "text": text}],
        "usage": {"input_tokens": tokens, "output_tokens": 0, **usage},
    }
    return {"type": "assistant", "message": message, **({"requestId": request} if request else {})}


def at(minute: int, second: int = 0) -> str:
    return f"2026-11-01T10:{minute:02}:{second:02}.000Z"


def meta(id: str, minute: int = 0, **fields: object) -> list[Json]:
    return [
        {"timestamp": at(minute), "type": "session_meta", "payload": {"id": id, **fields}},
        {"timestamp": at(minute), "type": "turn_context", "payload": {"model": "gpt-5.1"}},
    ]


def count(minute: int, total: int, last: int) -> Json:
    info = {
        "total_token_usage": {"input_tokens": total, "output_tokens": 0},
        "last_token_usage": {"input_tokens": last, "output_tokens": 0},
    }
    payload = {"type": "token_count", "info": info}
    return {"timestamp": at(minute), "type": "event_msg", "payload": payload}


def opencode_row(id: str, session: str, created: int, tokens: int) -> str:
    row = {
        "role": "assistant",
        "time": {"created": created},
        "modelID": "claude-opus-4-6",
        "tokens": {"input": tokens, "output": 0, "cache": {"read": 0, "write": 0}},
    }
    return f"insert into message values('{id}', '{session}', {created}, '{json.dumps(row)}')"
