"""Claude Code's sessions: `projects/**/*.jsonl`, subagents included.

A streamed answer is a record for each block, with the usage so far: blocks are put together again
by the message's id, and the last usage counts. System prompt, tools, titles and compactions are
not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from contextrender_bridge.audit.run_reader import AuditInput, Recorded, items, mapping, second_of
from contextrender_bridge.base.usage import Usage, usage_of
from contextrender_bridge.base.wire import Json

SOURCE = "Claude Code"
SYNTHETIC = "<synthetic>"
RESUME = "SessionStart:resume"
BESIDE = (
    "agent-color agent-name ai-title api-request api-request-blob api-request-shape atis-latch "
    "attachment bridge-session content-replacement cost-state custom-title deferred-tools-delta "
    "file-history-snapshot invoked-skills last-prompt mode permission-mode pr-link "
    "queue-operation saved_hook_context speculation-accept summary tag task-summary tools-used "
    "worktree-state"
)
SKIPPED = frozenset(BESIDE.split())


@dataclass
class Entry:
    """A message of the API, put together of its records."""

    role: str
    time: float
    uuids: list[str] = field(default_factory=list)
    blocks: list[Json] = field(default_factory=list)


def read_claude(home: Path, found: AuditInput) -> None:
    """Every session below `home`, Claude Code's own folder."""
    for path in sorted((home / "projects").rglob("*.jsonl")):
        _read(path, found)


def _read(path: Path, found: AuditInput) -> None:
    entries: dict[str, Entry] = {}
    usage: dict[str, Usage] = {}
    resumed: set[str] = set()
    run, resuming = Recorded(f"{path.stem}#1", SOURCE, path.stem), False

    def end(kept: set[str]) -> None:
        nonlocal run, usage
        for entry in entries.values():
            if entry.blocks:
                run.add("messages", {"role": entry.role, "content": entry.blocks}, entry.time)
        for id, used in usage.items():
            if id in resumed:
                run.resumed.add(len(run.usage))
            found.bill(run, id, used, entries[id].time)
        found.keep(run)
        run, usage = run.compacted(), {}
        for key in [key for key, entry in entries.items() if not kept & set(entry.uuids)]:
            del entries[key]

    for record in found.lines(path):
        kind = record.get("type")
        if kind == "system":
            if record.get("subtype") == "compact_boundary":
                end(set(_preserved(record)))
        elif kind in ("user", "assistant"):
            answer = _take(record, str(kind), entries, usage, found)
            if resuming and answer:
                resumed.add(answer)
                resuming = False
        elif kind == "progress":
            hook = mapping(record.get("data")).get("hookName")
            resuming = resuming or hook == RESUME
        elif kind not in SKIPPED:
            found.unknown()
    end(set())


def _take(
    record: Json, role: str, entries: dict[str, Entry], usage: dict[str, Usage], found: AuditInput
) -> str:
    """Takes a message in; the id of an answer that was billed, for others nothing."""
    message = mapping(record.get("message"))
    if message.get("model") == SYNTHETIC:
        return ""
    uuid = str(record.get("uuid") or len(entries))
    id = str(message.get("id") or uuid) if role == "assistant" else uuid
    entry = entries.setdefault(id, Entry(role, second_of(record.get("timestamp"))))
    entry.uuids.append(uuid)
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else items(content)
    if not blocks:
        found.unknown()
    entry.blocks += [b for b in blocks if isinstance(b, dict) and b not in entry.blocks]
    if role == "assistant":
        used = usage_of(str(message.get("model") or ""), mapping(message.get("usage")))
        if used is not None:
            usage[id] = used
            return id
    return ""


def _preserved(record: Json) -> Iterator[str]:
    """What of the history before a compaction stays."""
    told = mapping(record.get("compactMetadata"))
    yield from map(str, items(mapping(told.get("preservedMessages")).get("uuids")))
