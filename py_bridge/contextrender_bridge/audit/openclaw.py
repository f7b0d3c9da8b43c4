"""Reads OpenClaw's sessions: a SQLite store per agent; in earlier releases, JSON Lines.

An event is JSON; a large one is compressed with zstd. After a compaction the history begins with
the summary and the events that were kept. System prompts, tools and the prompts of compactions are
not recorded.
"""

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


def read_openclaw(home: Path, audit_input: AuditInput) -> None:
    """Read every session of every agent in `home`, OpenClaw's own folder."""
    # OpenClaw appends to `.jsonl` in the name of a session that was reset or deleted.
    for path in audit_input.files(home / "agents", STORE, "*.jsonl", "*.jsonl.*"):
        if path.name == STORE:
            read_openclaw_store(path, audit_input)
        else:
            read_events(path.name.split(".jsonl")[0], SOURCE, audit_input.lines(path), audit_input)


def read_openclaw_store(path: Path, audit_input: AuditInput) -> None:
    """Read the sessions of one agent's store."""
    audit_input.counts["files"] += 1
    for session, rows in groupby(audit_input.rows(path, EVENTS), key=lambda row: row[0]):
        read_events(str(session), SOURCE, _events(rows, audit_input), audit_input)


def _events(rows: Iterable[sqlite3.Row], audit_input: AuditInput) -> Iterator[Json]:
    """Yield the events in the rows that `EVENTS` selects: each is a text, or compressed."""
    for _, text, packed in rows:
        yield from audit_input.parsed(text if text is not None else _unpacked(packed or b""))


def _unpacked(packed: bytes) -> bytes:
    """Return the text of a compressed event; empty if it is damaged."""
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    except zstandard.ZstdError:
        return b""
