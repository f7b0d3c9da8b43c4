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

from contextrender_bridge.audit.run_reader import AuditInput, Recorded, items, mapping, tool_call
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
ENCODED = "\0json:"
"""How a content begins that is a list of parts."""


def read_hermes(home: Path, found: AuditInput) -> None:
    """Every session in `home`'s store."""
    path = home / "state.db"
    if not path.exists():
        return
    with found.store(path) as store:
        store.row_factory = sqlite3.Row
        used = _usage(store)
        for run in _runs(store, found):
            # What was put away shares its bill with what came after it.
            for usage in used.pop(run.task, ()):
                found.bill(run, "", usage)
            found.keep(run)


def _usage(store: sqlite3.Connection) -> dict[str, list[Usage]]:
    """By session, the sums of each model's calls."""
    found: dict[str, list[Usage]] = {}
    for row in store.execute(USAGE):
        usage = Usage(
            str(row["model"]),
            row["fresh"],
            row["read"],
            row["written"],
            output=row["output"],
            calls=row["calls"],
        )
        found.setdefault(row["session_id"], []).append(usage)
    return found


def _runs(store: sqlite3.Connection, found: AuditInput) -> Iterator[Recorded]:
    rows = store.execute(MESSAGES)
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
