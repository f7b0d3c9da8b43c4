"""opencode's sessions: its SQLite store, opened for reading alone; before that, JSON files.

A tool's call and its result are one part there; a compaction begins the history anew with the
message that sums it up. A fork has copies of its parent's messages under new ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.run_reader import (
    Recorded,
    chat,
    digest,
    items,
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
QUERY_2 = "select session_id, id, type, data from session_message order by session_id, seq"


class Message(NamedTuple):
    """One message of a session, with its parts."""

    session: str
    id: str
    info: Json
    parts: list[Json]


def read_opencode(home: Path, found: AuditInput) -> None:
    """Read every session in `home`: its stores, one for each channel, and its JSON files."""
    for path in sorted(home.glob("opencode*.db")):
        read_opencode_store(path, found)
    for storage in (home / "storage", *sorted(home.glob("project/*/storage"))):
        _read(_in_files(storage, found), found)


def read_opencode_store(path: Path, found: AuditInput) -> None:
    """Read the sessions of one store."""
    found.counts["files"] += 1
    tables = found.tables(path)
    if "message" in tables:
        _read(_stored(path, found), found)
    if "session_message" in tables:
        _read(_stored_2(path, found), found)
    if tables and not tables & {"message", "session_message"}:
        found.cannot_read(path, "a format of opencode's that is not supported")


def _stored(path: Path, found: AuditInput) -> Iterator[Message]:
    rows = found.rows(path, QUERY)
    for (session, id, told), group in groupby(rows, key=lambda row: (row[0], row[1], row[2])):
        parts = [next(found.parsed(row[3]), {}) for row in group if row[3]]
        yield Message(str(session), str(id), next(found.parsed(told or ""), {}), parts)


def _stored_2(path: Path, found: AuditInput) -> Iterator[Message]:
    """Yield the messages of opencode 2, whose parts are inside them."""
    for session, id, kind, data in found.rows(path, QUERY_2):
        told = next(found.parsed(data or ""), {})
        kind = told.get("type") or kind
        parts = [dict(mapping(part)) for part in items(told.get("content"))]
        if text := told.get("text") or told.get("summary"):
            parts.append({"type": "text", "text": str(text)})
        info = {**told, "role": "assistant" if kind == "assistant" else "user"}
        if kind == "compaction":
            info |= {"role": "assistant", "summary": True}
        elif kind not in ("assistant", "user", "synthetic", "shell"):
            continue
        yield Message(str(session), str(id), info, parts)


def _in_files(storage: Path, found: AuditInput) -> Iterator[Message]:
    """Yield the messages of releases that kept one JSON file per message and part."""
    folder = storage / "message"
    if not folder.is_dir():
        folder = storage / "session" / "message"
    part_folder = folder.parent / "part"
    paths = found.files(folder, is_session=lambda name: name.endswith(".json"))
    for path in sorted(paths, key=lambda path: (path.parent.name, path.stem)):
        info = _in_file(path, found)
        parts = [
            _in_file(part, found)
            for place in (part_folder / path.stem, part_folder / path.parent.name / path.stem)
            for part in sorted(place.glob("*.json"))
        ]
        yield Message(path.parent.name, path.stem, info, parts)


def _in_file(path: Path, found: AuditInput) -> Json:
    found.counts["files"] += 1
    try:
        return next(found.parsed(path.read_bytes()), {})
    except OSError as error:
        found.cannot_read(path, error)
        return {}


def _read(messages: Iterable[Message], found: AuditInput) -> None:
    run = Recorded("", SOURCE, "")
    for session, id, info, parts in messages:
        is_summary = info.get("summary") is True and info.get("role") == "assistant"
        if session != run.task or is_summary:
            found.keep(run)
            last = run.id if session == run.task else ""
            run_id = f"{session}#{id}" if is_summary else session
            run = Recorded(run_id, SOURCE, session, continues=last)
        _bill(run, id, info, parts, found)
        _add(run, info, parts)
    found.keep(run)


def _add(run: Recorded, info: Json, parts: list[Json]) -> None:
    """Add one message: its text and calls, and behind it the calls' results."""
    time = second_of(mapping(info.get("time")).get("created"))
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    tools = [part for part in parts if part.get("type") == "tool"]
    message = chat(info.get("role"), texts, [_call(part) for part in tools])
    if message["content"] or tools:
        run.add("chat", message, time)
    for part in tools:
        state = mapping(part.get("state"))
        output = state.get("output") or state.get("error") or _texts(state.get("content")) or ""
        content = output if isinstance(output, str) else json.dumps(output)
        run.add("chat", {"role": "tool", "tool_call_id": _call_id(part), "content": content}, time)


def _texts(content: object) -> str:
    return "\n".join(str(mapping(part).get("text") or "") for part in items(content))


def _call(part: Json) -> Json:
    arguments = mapping(part.get("state")).get("input") or {}
    return tool_call(_call_id(part), part.get("tool") or part.get("name"), arguments)


def _call_id(part: Json) -> str:
    return str(part.get("callID") or part.get("id"))


def _bill(run: Recorded, id: str, info: Json, parts: list[Json], found: AuditInput) -> None:
    told = mapping(info.get("tokens"))
    if info.get("role") != "assistant" or not told:
        return
    cache = mapping(told.get("cache"))
    usage = Usage(
        str(info.get("modelID") or mapping(info.get("model")).get("id") or ""),
        whole(told.get("input")),
        whole(cache.get("read")),
        whole(cache.get("write")),
        output=whole(told.get("output")) + whole(told.get("reasoning")),
    )
    times = mapping(info.get("time"))
    texts = [(part.get("text"), part.get("callID")) for part in parts if _is_said(part)]
    same = digest(usage, info.get("cost"), texts)
    time = second_of(times.get("created"))
    keys = [f"opencode {same} {id}"]
    if time:
        keys.append(f"opencode {same} {times.get('created')} {times.get('completed')}")
    found.bill(run, tuple(keys), usage, time)


def _is_said(part: Json) -> bool:
    """Return whether a part has the same content in a fork."""
    return part.get("type") in ("text", "reasoning") or bool(part.get("callID"))
