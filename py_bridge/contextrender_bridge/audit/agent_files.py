"""Tells whose session a file is, and reads it: those of agents, wherever they were copied to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
STORES: Mapping[str, Reader] = {
    "session_message": read_opencode_store,
    "message": read_opencode_store,
    "transcript_events": read_openclaw_store,
    "messages": read_hermes_store,
}
"""By a table that the store of one agent alone has."""
SUFFIXES = (".db", ".sqlite", ".jsonl", ".jsonl.zst")
SQLITE = b"SQLite format 3\0"
CLAUDE = frozenset({"user", "assistant", "system", "progress", "attachment"}) | SKIPPED
LINES = 5
"""Lines of a file that are looked at."""


def is_agent_file(name: str) -> bool:
    """Return whether a file may be a session of an agent's, by its name."""
    return name.endswith(SUFFIXES)


def agent_reader(path: Path) -> Reader | None:
    """Return what reads the file as an agent's session; None if it is none."""
    try:
        with path.open("rb") as file:
            if file.read(len(SQLITE)) == SQLITE:
                tables = AuditInput().tables(path)
                return next((STORES[name] for name in STORES if name in tables), None)
        if not path.name.endswith((".jsonl", ".jsonl.zst")):
            return None
        for _, line in zip(range(LINES), lines_in(path), strict=False):
            for value in json_values(line):
                if reader := _reader_of(mapping(value)):
                    return reader
    except Exception:  # an archive that is damaged at its beginning: read and named elsewhere
        return read_rollout if path.name.startswith("rollout-") else None
    return None


def read_rollout(path: Path, found: AuditInput) -> None:
    """Read one of Codex's session files."""
    read_rollouts([path], found)


def _reader_of(record: Mapping[str, Any]) -> Reader | None:
    kind = record.get("type")
    if kind == "session_meta" or (kind == "response_item" and "payload" in record):
        return read_rollout
    if kind == "session" and "id" in record:
        return read_pi_session
    has_message = isinstance(record.get("message"), Mapping)
    if kind == "message" and has_message:
        return read_pi_session
    if kind in CLAUDE and (has_message or "sessionId" in record or "leafUuid" in record):
        return read_claude_session
    return None
