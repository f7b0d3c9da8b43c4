"""OpenClaw's sessions: a SQLite store for each of its agents; before that, JSON Lines files.

An event is JSON, or zstd of it where it is large. A compaction begins the history anew with its
summary and what it kept; system prompt, tools and the words of compactions' calls are not recorded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.pi import read_events
from contextrender_bridge.base.wire import Json

SOURCE = "OpenClaw"
EVENTS = "select session_id, event_json, event_zstd from transcript_events order by session_id, seq"
STORE = "openclaw-agent.sqlite"


def read_openclaw(home: Path, found: AuditInput) -> None:
    """Read every session of every agent in `home`."""
    for path in found.files(home / "agents", is_session=_is_session):
        if path.name == STORE:
            read_openclaw_store(path, found)
        else:
            read_events(path.name.split(".jsonl")[0], SOURCE, found.lines(path), found)


def read_openclaw_store(path: Path, found: AuditInput) -> None:
    """Read the sessions of one agent's store."""
    found.counts["files"] += 1
    for session, rows in groupby(found.rows(path, EVENTS), key=lambda row: row[0]):
        read_events(str(session), SOURCE, _events(rows, found), found)


def _is_session(name: str) -> bool:
    """Return whether a file is a store, or a session: also one that was reset or deleted."""
    return name == STORE or name.endswith(".jsonl") or ".jsonl." in name


def _events(rows: Iterable[sqlite3.Row], found: AuditInput) -> Iterator[Json]:
    for _, text, packed in rows:
        yield from found.parsed(text if text is not None else _unpacked(packed or b""))


def _unpacked(packed: bytes) -> bytes:
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    except zstandard.ZstdError:
        return b""
