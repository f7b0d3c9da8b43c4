"""Finds out from a file's contents which agent wrote it, so that copies can be read, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.claude import SKIPPED, read_claude_session
from contextrender_bridge.audit.codex import read_rollouts
from contextrender_bridge.audit.hermes import read_hermes_store
from contextrender_bridge.audit.openclaw import read_openclaw_store
from contextrender_bridge.audit.opencode import read_opencode_store
from contextrender_bridge.audit.opening import json_values, lines_in
from contextrender_bridge.audit.pi import read_pi_session
from contextrender_bridge.audit.run_reader import mapping

Reader = Callable[[Path, AuditInput], None]
STORE_READERS: Mapping[str, Reader] = {
    "session_message": read_opencode_store,
    "message": read_opencode_store,
    "transcript_events": read_openclaw_store,
    "messages": read_hermes_store,
}
"""Readers of SQLite stores, by a table name that only one agent's store has."""
SUFFIXES = (".db", ".sqlite", ".jsonl", ".jsonl.zst")
SQLITE_HEADER = b"SQLite format 3\0"
CLAUDE_KINDS = frozenset({"user", "assistant", "system", "progress", "attachment"}) | SKIPPED
SNIFFED_LINES = 5
"""The number of lines that are read to recognize a file."""


def is_agent_file(name: str) -> bool:
    """Return whether a file with this name may be an agent's session."""
    return name.endswith(SUFFIXES)


def agent_reader(path: Path) -> Reader | None:
    """Return the function that reads the file, depending on the agent that wrote it.

    A SQLite store is recognized by its tables, a JSON Lines file by its first lines. Return None if
    no agent wrote the file.
    """
    try:
        with path.open("rb") as file:
            if file.read(len(SQLITE_HEADER)) == SQLITE_HEADER:
                # Do not count a damaged store here. Its reader counts it.
                tables = AuditInput().tables(path)
                return next((STORE_READERS[name] for name in STORE_READERS if name in tables), None)
        if not path.name.endswith((".jsonl", ".jsonl.zst")):
            return None
        for line in islice(lines_in(path), SNIFFED_LINES):
            for value in json_values(line):
                if reader := _reader_of(mapping(value)):
                    return reader
    except Exception:  # decompressors raise errors of their own
        # The file cannot be read. Only Codex compresses files, and its reader reports this one.
        return read_rollout if path.name.startswith("rollout-") else None
    return None


def read_rollout(path: Path, audit_input: AuditInput) -> None:
    """Read one session file of Codex."""
    read_rollouts([path], audit_input)


def _reader_of(record: Mapping[str, Any]) -> Reader | None:
    """Return the reader of the agent whose sessions have such records; None if none has them."""
    kind = record.get("type")
    if kind == "session_meta" or (kind == "response_item" and "payload" in record):
        return read_rollout
    if kind == "session" and "id" in record:
        return read_pi_session
    has_message = isinstance(record.get("message"), Mapping)
    if kind == "message" and has_message:
        return read_pi_session
    if kind in CLAUDE_KINDS and (has_message or "sessionId" in record or "leafUuid" in record):
        return read_claude_session
    return None
