"""Reads opencode's sessions: its SQLite stores, opened read-only; in earlier releases, JSON files.

A tool call and its result are one part of a message. After a compaction the history begins with the
message that has the summary. A fork has copies of its parent's messages with new ids.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.opening import to_utf8
from contextrender_bridge.audit.run_reader import (
    RecordedRun,
    chat,
    counts_of,
    digest,
    items,
    mapping,
    second_of,
    tool_call,
)
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.wire import Json

SOURCE = "opencode"
QUERY = """
select m.session_id, m.id, m.data, p.data from message m left join part p on p.message_id = m.id
order by m.session_id, m.time_created, m.id, p.id
"""
QUERY_2 = "select session_id, id, type, data from session_message order by session_id, seq"


class StoredMessage(NamedTuple):
    """One message of a session, with its parts."""

    session: str
    id: str
    info: Json
    parts: list[Json]


def read_opencode(home: Path, audit_input: AuditInput) -> None:
    """Read every session in `home`, opencode's own folder.

    It has a SQLite store for each release channel, or, in earlier releases, JSON files.
    """
    for path in sorted(home.glob("opencode*.db")):
        read_opencode_store(path, audit_input)
    for storage in (home / "storage", *sorted(home.glob("project/*/storage"))):
        _read_messages(_messages_in_files(storage, audit_input), audit_input)


def read_opencode_store(path: Path, audit_input: AuditInput) -> None:
    """Read the sessions of one store. Its tables depend on the release, and it may have both."""
    audit_input.counts["files"] += 1
    tables = audit_input.tables(path)
    if "message" in tables:
        _read_messages(_messages_in_store(path, audit_input), audit_input)
    if "session_message" in tables:
        _read_messages(_messages_in_store_2(path, audit_input), audit_input)
    if tables and not tables & {"message", "session_message"}:
        audit_input.cannot_read(path, "a format of opencode's that is not supported")


def _messages_in_store(path: Path, audit_input: AuditInput) -> Iterator[StoredMessage]:
    """Yield the messages of a store in which each part of a message is a row."""
    rows = audit_input.rows(path, QUERY)
    for (session, id, data), group in groupby(rows, key=lambda row: (row[0], row[1], row[2])):
        parts = [next(audit_input.parsed(row[3]), {}) for row in group if row[3]]
        yield StoredMessage(str(session), str(id), next(audit_input.parsed(data or ""), {}), parts)


def _messages_in_store_2(path: Path, audit_input: AuditInput) -> Iterator[StoredMessage]:
    """Yield the messages of a store of opencode 2, in which a message's row has its parts.

    Their fields are changed to those of earlier releases.
    """
    for session, id, kind, data in audit_input.rows(path, QUERY_2):
        fields = next(audit_input.parsed(data or ""), {})
        kind = fields.get("type") or kind
        parts = [dict(mapping(part)) for part in items(fields.get("content"))]
        if text := fields.get("text") or fields.get("summary"):
            parts.append({"type": "text", "text": str(text)})
        info = {**fields, "role": "assistant" if kind == "assistant" else "user"}
        if kind == "compaction":  # earlier releases have the summary as an answer
            info |= {"role": "assistant", "summary": True}
        elif kind not in ("assistant", "user", "synthetic", "shell"):
            continue
        yield StoredMessage(str(session), str(id), info, parts)


def _messages_in_files(storage: Path, audit_input: AuditInput) -> Iterator[StoredMessage]:
    """Yield the messages of releases that kept one JSON file per message and part.

    The files are `message/SESSION/MESSAGE.json` and `part/MESSAGE/PART.json`. In some releases, the
    folders `message` and `part` are in `session`, and the parts are in `part/SESSION/MESSAGE`.
    """
    message_folder = storage / "message"
    if not message_folder.is_dir():
        message_folder = storage / "session" / "message"
    part_folder = message_folder.parent / "part"
    paths = audit_input.files(message_folder, "*.json")
    # Each session's messages in the order of their ids.
    for path in sorted(paths, key=lambda path: (path.parent.name, path.stem)):
        session, message = path.parent.name, path.stem
        info = _read_json(path, audit_input)
        parts = [
            _read_json(part_path, audit_input)
            for folder in (part_folder / message, part_folder / session / message)
            for part_path in sorted(folder.glob("*.json"))
        ]
        yield StoredMessage(session, message, info, parts)


def _read_json(path: Path, audit_input: AuditInput) -> Json:
    """Return the object in a JSON file. If it cannot be read, record that and return {}."""
    audit_input.counts["files"] += 1
    try:
        return next(audit_input.parsed(to_utf8(path.read_bytes())), {})
    except OSError as error:
        audit_input.cannot_read(path, error)
        return {}


def _read_messages(messages: Iterable[StoredMessage], audit_input: AuditInput) -> None:
    """Add the runs of sessions, given all messages of one session after another.

    A run begins with a session's first message, or with the summary of a compaction.
    """
    run = RecordedRun("", SOURCE, "")  # no session's: it is empty, so `add_run` ignores it
    for session, id, info, parts in messages:
        is_new_session = session != run.task  # a run's `task` is its session
        is_summary = info.get("summary") is True and info.get("role") == "assistant"
        if is_new_session or is_summary:  # the previous run ends here
            audit_input.add_run(run)
            previous_id = "" if is_new_session else run.id
            run_id = f"{session}#{id}" if is_summary else session
            run = RecordedRun(run_id, SOURCE, session, continues=previous_id)
        _add_usage(run, id, info, parts, audit_input)
        _add_message(run, info, parts)
    audit_input.add_run(run)


def _add_message(run: RecordedRun, info: Json, parts: list[Json]) -> None:
    """Add one message with its text and calls to a run, and then the results of the calls."""
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
    """Return the texts of a result's parts, joined by newlines."""
    return "\n".join(str(mapping(part).get("text") or "") for part in items(content))


def _call(part: Json) -> Json:
    """Return the tool call in a part of a message."""
    arguments = mapping(part.get("state")).get("input") or {}
    return tool_call(_call_id(part), part.get("tool") or part.get("name"), arguments)


def _call_id(part: Json) -> str:
    """Return the id of the tool call in a part, or the part's own id if the call has none."""
    return str(part.get("callID") or part.get("id"))


def _add_usage(
    run: RecordedRun, id: str, info: Json, parts: list[Json], audit_input: AuditInput
) -> None:
    """Add the usage of an answer. Other messages are ignored.

    Copies of the answer must share a key. A copy in another store has the same id. A copy in a fork
    has a new id, but the same times. So one key has the id, and the other the times.
    """
    tokens = mapping(info.get("tokens"))
    if info.get("role") != "assistant" or not tokens:
        return
    model = str(info.get("modelID") or mapping(info.get("model")).get("id") or "")
    usage = _usage(model, tokens)
    # Answers of different calls may have equal ids or times, so their content is in the keys.
    texts = [
        (part.get("text"), part.get("callID"))
        for part in parts
        # Forks copy these unchanged.
        if part.get("type") in ("text", "reasoning") or part.get("callID")
    ]
    content_digest = digest(usage, info.get("cost"), texts)
    times = mapping(info.get("time"))
    time = second_of(times.get("created"))
    keys = [f"opencode {content_digest} {id}"]
    if time:
        keys.append(f"opencode {content_digest} {times.get('created')} {times.get('completed')}")
    audit_input.add_usage(run, tuple(keys), usage, time)


def _usage(model: str, tokens: Mapping[str, object]) -> Usage | None:
    """Return the usage in an answer's token counts; None if a count cannot be read."""
    cache = mapping(tokens.get("cache"))
    names = ("input", "output", "reasoning")
    counts = counts_of(*map(tokens.get, names), cache.get("read"), cache.get("write"))
    if counts is None:
        return None
    uncached, output, reasoning, cache_read, cache_write = counts
    return Usage(model, uncached, cache_read, cache_write, output=output + reasoning)
