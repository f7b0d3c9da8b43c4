"""Hermes' sessions: its SQLite store `state.db`, opened for reading alone.

A compaction puts rows away and writes what the agent goes on with behind them: what was put away is
a history of its own. Usage is kept by session and model, not by call. The system prompt is in the
store, the tools are not.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.run_reader import Recorded, items, mapping, tool_call, whole
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.wire import Json

SOURCE = "Hermes"
MESSAGES = """
select m.session_id, s.model, m.compacted, m.role, m.content,
    m.tool_calls, m.tool_call_id, m.timestamp
from messages m join sessions s on s.id = m.session_id
where m.active = 1 or m.compacted = 1 order by m.session_id, m.compacted desc, m.id
"""
USAGE = """
select session_id, model, sum(api_call_count) as calls, sum(input_tokens) as fresh,
    sum(cache_read_tokens) as read, sum(cache_write_tokens) as written, sum(output_tokens) as output
from session_model_usage group by session_id, model having sum(api_call_count) > 0
"""
EARLIER_USAGE = """
select id as session_id, model, 1 as calls, input_tokens as fresh, cache_read_tokens as read,
    cache_write_tokens as written, output_tokens as output
from sessions where input_tokens > 0 or output_tokens > 0
"""
"""Of releases that kept the sums with the session, without the number of calls."""
ENCODED = "\0json:"
"""How a content begins that is a list of parts."""


def read_hermes(home: Path, found: AuditInput) -> None:
    """Read every session in `home`'s store, and in those of its profiles."""
    for path in (home / "state.db", *sorted(home.glob("profiles/*/state.db"))):
        if path.exists():
            read_hermes_store(path, found)


def read_hermes_store(path: Path, found: AuditInput) -> None:
    """Read the sessions of one store."""
    found.counts["files"] += 1
    tables = found.tables(path)
    if not tables:
        return
    if not {"messages", "sessions"} <= tables:
        found.cannot_read(path, "a format of Hermes' that is not supported")
        return
    used = _usage(path, USAGE if "session_model_usage" in tables else EARLIER_USAGE, found)
    runs = {run.id: run for run in _runs(path, found)}
    for run in runs.values():
        # What was put away shares its bill with what came after it.
        for usage in used.pop(run.task, ()):
            found.bill(run, f"hermes {run.task} {usage}", usage)
        found.keep(run)
    for session, rest in used.items():  # its messages are gone, its bill is not
        run = Recorded(f"{session}#1", SOURCE, session)
        for usage in rest:
            found.bill(run, f"hermes {session} {usage}", usage)
        found.keep(run)


def _usage(path: Path, query: str, found: AuditInput) -> dict[str, list[Usage]]:
    """Return by session the sums of each model's calls."""
    sums: dict[str, list[Usage]] = {}
    for row in found.rows(path, query):
        names = ("fresh", "read", "written", "output", "calls")
        fresh, read, written, output, calls = (whole(row[name]) for name in names)
        usage = Usage(str(row["model"] or ""), fresh, read, written, output=output, calls=calls)
        sums.setdefault(row["session_id"], []).append(usage)
    return sums


def _runs(path: Path, found: AuditInput) -> Iterator[Recorded]:
    rows = found.rows(path, MESSAGES)
    for (session, away), group in groupby(rows, key=lambda row: (row[0], row["compacted"])):
        run = Recorded(f"{session}#{1 - away}", SOURCE, session)
        for row in group:
            found.counts["lines"] += 1
            run.model = run.model or str(row["model"] or "")
            run.add("chat", _message(row, found), row["timestamp"])
        yield run


def _message(row: sqlite3.Row, found: AuditInput) -> Json:
    message: Json = {"role": row["role"], "content": _content(row["content"], found)}
    if row["role"] == "tool":
        message["tool_call_id"] = str(row["tool_call_id"])
    calls = [_call(mapping(one)) for one in items(_decoded(row["tool_calls"], found))]
    return {**message, "tool_calls": calls} if calls else message


def _call(told: Mapping[str, Any]) -> Json:
    body = mapping(told.get("function"))
    return tool_call(told.get("id"), body.get("name"), str(body.get("arguments") or ""))


def _content(text: str | None, found: AuditInput) -> Any:
    return _decoded(text[len(ENCODED) :], found) if text and text.startswith(ENCODED) else text


def _decoded(text: str | None, found: AuditInput) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        found.counts["damaged lines"] += 1
        return None
