"""opencode's sessions: its SQLite store, opened for reading alone.

A tool's call and its result are one part there; a compaction begins the history anew with the
message that sums it up.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

from contextrender_bridge.audit.run_reader import (
    AuditInput,
    Recorded,
    chat,
    mapping,
    second_of,
    tool_call,
    whole,
)
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.wire import Json

SOURCE = "opencode"
QUERY = """
select m.session_id, m.id, m.data, p.data from message m left join part p on p.message_id = m.id
order by m.session_id, m.time_created, m.id, p.id
"""


def read_opencode(home: Path, found: AuditInput) -> None:
    """Every session in `home`'s store."""
    path = home / "opencode.db"
    if not path.exists():
        return
    run = Recorded("", SOURCE, "")
    with found.store(path) as store:
        for (session, id, told), rows in groupby(store.execute(QUERY), key=lambda row: row[:3]):
            info = next(found.parsed(told), {})
            summary = info.get("summary") is True and info.get("role") == "assistant"
            if session != run.task or summary:
                found.keep(run)
                last = run.id if session == run.task else ""
                id_ = f"{session}#{id}" if summary else session
                run = Recorded(id_, SOURCE, session, continues=last)
            parts = [next(found.parsed(part), {}) for *_, part in rows if part]
            _bill(run, id, info, found)
            _add(run, info, parts)
    found.keep(run)


def _add(run: Recorded, info: Json, parts: list[Json]) -> None:
    """One message: its text and calls, and behind it the calls' results."""
    time = second_of(mapping(info.get("time")).get("created"))
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    tools = [part for part in parts if part.get("type") == "tool"]
    message = chat(info.get("role"), texts, [_call(part) for part in tools])
    if message["content"] or tools:
        run.add("chat", message, time)
    for part in tools:
        state = mapping(part.get("state"))
        output = state.get("output") or state.get("error") or ""
        content = output if isinstance(output, str) else json.dumps(output)
        id = str(part.get("callID"))
        run.add("chat", {"role": "tool", "tool_call_id": id, "content": content}, time)


def _call(part: Json) -> Json:
    arguments = mapping(part.get("state")).get("input") or {}
    return tool_call(part.get("callID"), part.get("tool"), arguments)


def _bill(run: Recorded, id: str, info: Json, found: AuditInput) -> None:
    told = mapping(info.get("tokens"))
    if info.get("role") != "assistant" or not told:
        return
    cache = mapping(told.get("cache"))
    usage = Usage(
        str(info.get("modelID") or ""),
        whole(told.get("input")),
        whole(cache.get("read")),
        whole(cache.get("write")),
        output=whole(told.get("output")) + whole(told.get("reasoning")),
    )
    found.bill(run, id, usage, second_of(mapping(info.get("time")).get("created")))
