"""OpenClaw's sessions: a SQLite store for each of its agents, opened for reading alone.

An event is JSON, or zstd of it where it is large. A compaction begins the history anew with its
summary and what it kept; system prompt, tools and the words of compactions' calls are not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from contextrender_bridge.audit.run_reader import (
    AuditInput,
    Recorded,
    chat,
    items,
    mapping,
    second_of,
    tool_call,
    whole,
)
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.wire import Json

SOURCE = "OpenClaw"
EVENTS = "select session_id, event_json, event_zstd from transcript_events order by session_id, seq"


def read_openclaw(home: Path, found: AuditInput) -> None:
    """Every session of every agent in `home`."""
    for path in sorted(home.glob("agents/*/agent/openclaw-agent.sqlite")):
        with found.store(path) as store:
            for session, rows in groupby(store.execute(EVENTS), key=lambda row: row[0]):
                _read(str(session), _events(rows, found), found)


def _events(
    rows: Iterator[tuple[str, str | None, bytes | None]], found: AuditInput
) -> Iterator[Json]:
    for _, text, packed in rows:
        yield from found.parsed(text if text is not None else _unpacked(packed or b""))


def _unpacked(packed: bytes) -> bytes:
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    except zstandard.ZstdError:
        return b""


def _read(session: str, events: Iterator[Json], found: AuditInput) -> None:
    run = Recorded(f"{session}#1", SOURCE, session)
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
                _say(run, earlier)
    found.keep(run)


def _kept(events: list[Json], first: object) -> list[Json]:
    """The events from that id on; none where it is not there."""
    ids = [event.get("id") for event in events]
    return events[ids.index(first) :] if first in ids else []


def _add(run: Recorded, event: Json, found: AuditInput) -> None:
    _say(run, event)
    message = mapping(event.get("message"))
    told = mapping(message.get("usage"))
    if message.get("role") != "assistant" or not told:
        return
    names = ("input", "cacheRead", "cacheWrite", "output")
    fresh, read, written, output = (whole(told.get(name)) for name in names)
    model = str(message.get("model") or "")
    usage = Usage(model, fresh, read, written, output=output)
    found.bill(run, str(event.get("id") or ""), usage, second_of(event.get("timestamp")))


def _say(run: Recorded, event: Json) -> None:
    """A message as a chat message: its parts are texts, thoughts and calls."""
    told = mapping(event.get("message"))
    role, content = told.get("role"), told.get("content")
    text = {"type": "text", "text": content}
    parts = [text] if isinstance(content, str) else [mapping(part) for part in items(content)]
    calls = [
        tool_call(part.get("id"), part.get("name"), part.get("arguments") or {})
        for part in parts
        if part.get("type") == "toolCall"
    ]
    texts = [part["text"] for part in parts if part.get("type") == "text"]
    message = chat("tool" if role == "toolResult" else role, texts, calls)
    if role == "toolResult":
        message["tool_call_id"] = str(told.get("toolCallId"))
    run.add("chat", message, second_of(event.get("timestamp")))
