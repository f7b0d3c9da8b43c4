"""pi's sessions, `agent/sessions/*/*.jsonl`, and OpenClaw's, which have the same events.

An event names the one before it, so a session is a tree: a user who goes back to an earlier message
starts another line of messages. A fork's file begins with a copy of its parent's events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

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

SOURCE = "pi"


def read_pi(home: Path, found: AuditInput) -> None:
    """Read every session below `home`, pi's own folder."""
    for path in found.files(home / "sessions", is_session=lambda name: name.endswith(".jsonl")):
        read_pi_session(path, found)


def read_pi_session(path: Path, found: AuditInput) -> None:
    """Read one session file."""
    read_events(path.stem, SOURCE, found.lines(path), found)


def read_events(session: str, source: str, events: Iterable[Json], found: AuditInput) -> None:
    """Read a session's events, each line of messages as a run of its own."""
    told = list(events)
    for number, line in enumerate(_lines(told)):
        name = f"{session}/{number}" if number else session
        _read_line(name, source, session, line, found)


def _lines(events: list[Json]) -> Iterator[list[Json]]:
    """Yield the events from the first to each that none goes on from, the newest line first."""
    by_id = {str(event["id"]): event for event in events if event.get("id")}
    parents = {str(event.get("parentId") or "") for event in events}
    tips = [id for id, event in by_id.items() if id not in parents and event.get("parentId")]
    if len(tips) < 2:
        yield events
        return
    for tip in reversed(tips):
        line: list[Json] = []
        seen: set[str] = set()
        while tip in by_id and tip not in seen:
            seen.add(tip)
            line.append(by_id[tip])
            tip = str(by_id[tip].get("parentId") or "")
        yield line[::-1]


def _read_line(name: str, source: str, session: str, events: list[Json], found: AuditInput) -> None:
    run = Recorded(f"{name}#1", source, session)
    kept: list[Json] = []
    for event in events:
        kind = event.get("type")
        if kind == "message":
            kept.append(event)
            _add(run, event, found)
        elif kind == "compaction":
            found.keep(run)
            run = run.compacted()
            run.add("chat", {"role": "user", "content": str(event.get("summary") or "")})
            kept = _kept(kept, event.get("firstKeptEntryId"))
            for earlier in kept:
                _add_message(run, earlier)
    found.keep(run)


def _kept(events: list[Json], first: object) -> list[Json]:
    """Return the events from that id on; none if it is not there."""
    ids = [event.get("id") for event in events]
    return events[ids.index(first) :] if first in ids else []


def _add(run: Recorded, event: Json, found: AuditInput) -> None:
    _add_message(run, event)
    message = mapping(event.get("message"))
    told = mapping(message.get("usage"))
    if message.get("role") != "assistant" or not told:
        return
    names = ("input", "cacheRead", "cacheWrite", "output")
    fresh, read, written, output = (whole(told.get(name)) for name in names)
    usage = Usage(str(message.get("model") or ""), fresh, read, written, output=output)
    time = second_of(event.get("timestamp")) or second_of(message.get("timestamp"))
    same = digest(message.get("content"), told, message.get("model"))
    keys = [f"{run.source} {same} {part}" for part in (event.get("id"), time) if part]
    found.bill(run, tuple(keys), usage, time)


def _add_message(run: Recorded, event: Json) -> None:
    """Add an event's message as a chat message: its parts are texts, thoughts and calls."""
    told = mapping(event.get("message"))
    role, content = told.get("role"), told.get("content")
    text = {"type": "text", "text": content}
    parts = [text] if isinstance(content, str) else [mapping(part) for part in items(content)]
    calls = [
        tool_call(part.get("id"), part.get("name"), part.get("arguments") or {})
        for part in parts
        if part.get("type") == "toolCall"
    ]
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    message = chat("tool" if role == "toolResult" else role, texts, calls)
    if role == "toolResult":
        message["tool_call_id"] = str(told.get("toolCallId"))
    run.add("chat", message, second_of(event.get("timestamp")))
