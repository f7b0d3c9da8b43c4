"""Reads Hermes' sessions from its SQLite store `state.db`, opened read-only.

A compaction marks rows as compacted and adds the messages that replace them. The compacted rows are
read as a separate run. Usage is stored per session and model, not per call. The store has the
system prompt, but not the tools.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.run_reader import RecordedRun, items, mapping, tool_call
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.usage_reading import count_of
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
"""For releases that stored the sums with the session, without the number of calls."""
ENCODED = "\0json:"
"""The prefix of a content that is a list of parts in JSON."""


def read_hermes(home: Path, audit_input: AuditInput) -> None:
    """Read every session in the store in `home`, and in the stores of its profiles."""
    for path in (home / "state.db", *sorted(home.glob("profiles/*/state.db"))):
        if path.exists():
            read_hermes_store(path, audit_input)


def read_hermes_store(path: Path, audit_input: AuditInput) -> None:
    """Read the sessions of one store.

    A session may have two runs, but its usage is stored as a whole: it is added to the first run.
    A session without stored messages becomes a run that has only usage.
    """
    audit_input.counts["files"] += 1
    tables = audit_input.tables(path)
    if not tables:
        return
    if not {"messages", "sessions"} <= tables:
        audit_input.cannot_read(path, "a format of Hermes' that is not supported")
        return
    # Earlier releases have the usage in another table.
    query = USAGE if "session_model_usage" in tables else EARLIER_USAGE
    usage_by_session = _usage(path, query, audit_input)
    for run in _runs(path, audit_input):
        # `run.task` is the session's id. `pop` removes its usage, so its second run gets none.
        for usage in usage_by_session.pop(run.task, ()):
            audit_input.add_usage(run, f"hermes {run.task} {usage}", usage)
        audit_input.add_run(run)
    for session, usages in usage_by_session.items():  # the sessions without stored messages
        run = RecordedRun(f"{session}#1", SOURCE, session)
        for usage in usages:
            audit_input.add_usage(run, f"hermes {session} {usage}", usage)
        audit_input.add_run(run)


def _usage(path: Path, query: str, audit_input: AuditInput) -> dict[str, list[Usage]]:
    """Map each session to its usage: the sums of each model, as `query` selects them."""
    sums: dict[str, list[Usage]] = {}
    for row in audit_input.rows(path, query):
        names = ("fresh", "read", "written", "output", "calls")
        uncached, cache_read, cache_write, output, calls = (
            count_of(row[name]) or 0 for name in names
        )
        usage = Usage(
            str(row["model"] or ""), uncached, cache_read, cache_write, output=output, calls=calls
        )
        sums.setdefault(row["session_id"], []).append(usage)
    return sums


def _runs(path: Path, audit_input: AuditInput) -> Iterator[RecordedRun]:
    """Yield the runs of all sessions: one of the compacted rows, if any, and one of the others.

    The run of the compacted rows has number 0 in its id, the other run has number 1.
    """
    all_rows = audit_input.rows(path, MESSAGES)  # each session's compacted rows come first
    for (session, is_compacted), rows in groupby(all_rows, itemgetter("session_id", "compacted")):
        run = RecordedRun(f"{session}#{0 if is_compacted else 1}", SOURCE, session)
        for row in rows:
            audit_input.counts["lines"] += 1
            run.model = run.model or str(row["model"] or "")
            run.add("chat", _message(row, audit_input), row["timestamp"])
        yield run


def _message(row: sqlite3.Row, audit_input: AuditInput) -> Json:
    """Return the chat message in a row."""
    message: Json = {"role": row["role"], "content": _content(row["content"], audit_input)}
    if row["role"] == "tool":
        message["tool_call_id"] = str(row["tool_call_id"])
    tool_calls = [
        _chat_call(mapping(call)) for call in items(_decode_json(row["tool_calls"], audit_input))
    ]
    return {**message, "tool_calls": tool_calls} if tool_calls else message


def _chat_call(call: Mapping[str, Any]) -> Json:
    """Return a stored tool call as a tool call of a chat message."""
    function = mapping(call.get("function"))
    return tool_call(call.get("id"), function.get("name"), str(function.get("arguments") or ""))


def _content(text: str | None, audit_input: AuditInput) -> Any:
    """Return a message's content: the text itself, or the value of the JSON after `ENCODED`."""
    if text and text.startswith(ENCODED):
        return _decode_json(text.removeprefix(ENCODED), audit_input)
    return text


def _decode_json(text: str | None, audit_input: AuditInput) -> Any:
    """Return the value of a JSON text; None if it is empty or damaged. Count a damaged text."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        audit_input.counts["damaged lines"] += 1
        return None
