"""Claude Code's sessions: `projects/**/*.jsonl`, subagents included.

A streamed answer is a record for each block, with the usage so far: blocks are put together again
by the message's id, and the last usage counts. System prompt, tools, titles and compactions are
not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.run_reader import Recorded, digest, items, mapping, second_of
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.usage_reading import usage_of
from contextrender_bridge.base.wire import Json

SOURCE = "Claude Code"
SYNTHETIC = "<synthetic>"
RESUME = "SessionStart:resume"
BESIDE = (
    "agent-color agent-name ai-title api-request api-request-blob api-request-shape atis-latch "
    "bridge-session content-replacement cost-state custom-title deferred-tools-delta "
    "file-history-snapshot invoked-skills last-prompt mode permission-mode pr-link "
    "queue-operation saved_hook_context speculation-accept summary tag task-summary tools-used "
    "worktree-state"
)
SKIPPED = frozenset(BESIDE.split())

RECORDED_SINCE = (2, 1, 217)
"""The first release that records what it puts back after a compaction."""
FILES, FILE_CHARS = 5, 20_000
"""Earlier releases put back this many files, of about 5,000 tokens each."""
ATTACHED = frozenset({"content", "planContent", "snippet", "text"})
"""Fields of an attachment that the prompt has."""


@dataclass
class Entry:
    """A message of the API, put together of its records. `usage` is an answer's.

    `answer` is what makes answers one over all files; `is_resumed` says that the session was taken
    up again before it.
    """

    role: str
    time: float
    answer: str = ""
    uuids: list[str] = field(default_factory=list)
    blocks: list[Json] = field(default_factory=list)
    usage: Usage | None = None
    is_resumed: bool = False


def read_claude(home: Path, found: AuditInput) -> None:
    """Read every session below `home`, Claude Code's own folder."""
    for path in found.files(home / "projects", is_session=lambda name: name.endswith(".jsonl")):
        read_claude_session(path, found)


def read_claude_session(path: Path, found: AuditInput) -> None:
    """Read one session file."""
    _Session(path, found).read()


class _Session:
    """One session file, as its records come."""

    def __init__(self, path: Path, found: AuditInput) -> None:
        self._path, self._found = path, found
        self._entries: list[Entry] = []
        self._by_id: dict[str, Entry] = {}
        """The newest answer of each id."""
        self._run = Recorded(f"{path.stem}#1", SOURCE, path.stem)
        self._resuming = False
        self._put_back: list[Entry] | None = None
        """What the prompt has beside a compaction's summary, until its first answer."""
        self._newest_files: list[str] = []

    def read(self) -> None:
        """Read the records and keep the runs."""
        for record in self._found.lines(self._path):
            kind = record.get("type")
            if kind == "system":
                if record.get("subtype") == "compact_boundary":
                    self._end(set(_preserved(record)))
            elif kind in ("user", "assistant"):
                self._take(record, str(kind))
            elif kind == "attachment":
                self._attach(record)
            elif kind == "progress":
                self._resuming |= mapping(record.get("data")).get("hookName") == RESUME
            elif kind not in SKIPPED:
                self._found.unknown()
        self._end(set())

    def _end(self, preserved: set[str]) -> None:
        """Keep the run. What is preserved begins the next one."""
        for entry in self._entries:
            if entry.blocks:
                message = {"role": entry.role, "content": entry.blocks}
                self._run.add("messages", message, entry.time)
        for entry in self._entries:
            self._found.bill(
                self._run, entry.answer, entry.usage, entry.time, resumed=entry.is_resumed
            )
        self._found.keep(self._run)
        self._run = self._run.compacted()
        self._put_back, self._newest_files = [], _newest_files(self._entries)
        self._entries = [entry for entry in self._entries if preserved & set(entry.uuids)]
        for entry in self._entries:
            entry.usage = None
        self._by_id = {}

    def _take(self, record: Json, role: str) -> None:
        message = mapping(record.get("message"))
        if message.get("model") == SYNTHETIC:
            return
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else items(content)
        if not blocks:
            self._found.unknown()
        usage = None
        if role == "assistant":
            self._add_files(str(record.get("version") or ""))
            usage = usage_of(str(message.get("model") or ""), mapping(message.get("usage")))
        entry = self._entry(record, role, str(message.get("id") or ""), usage)
        entry.uuids.append(str(record.get("uuid") or ""))
        entry.blocks += [b for b in blocks if isinstance(b, dict) and b not in entry.blocks]
        if usage is not None:
            if self._resuming:
                entry.is_resumed, self._resuming = True, False
            if entry.usage is None or usage.prompt or usage.output:
                entry.usage = usage
        if role == "user" and not all(mapping(b).get("type") == "tool_result" for b in blocks):
            self._by_id = {id: one for id, one in self._by_id.items() if "\0" in id}

    def _entry(self, record: Json, role: str, id: str, usage: Usage | None) -> Entry:
        """Return the answer that a record goes on with, or a new entry.

        Some gateways give every answer one id. The request's id tells answers apart; without it,
        another prompt or a user's words in between.
        """
        time = second_of(record.get("timestamp"))
        uuid, request = str(record.get("uuid") or ""), str(record.get("requestId") or "")
        key = f"{id}\0{request}" if request else id
        known = self._by_id.get(key) if role == "assistant" and id else None
        if known and (request or _is_same_prompt(known.usage, usage)):
            return known
        answer = key if request else f"{id}\0\0{uuid or digest(record)}"
        entry = Entry(role, time, answer)
        self._entries.append(entry)
        if role == "assistant" and id:
            self._by_id[key] = entry
        return entry

    def _attach(self, record: Json) -> None:
        """Note what Claude Code puts back after a compaction, such as the files it read last."""
        text = attached_text(record.get("attachment"))
        if self._put_back is not None and text:
            time = second_of(record.get("timestamp"))
            self._put_back.append(_note(text, time, str(record.get("uuid") or "")))

    def _add_files(self, version: str) -> None:
        """Add what was put back. Releases that do not record it put back the last files read."""
        if self._put_back is None:
            return
        if not self._put_back and _is_before(version, RECORDED_SINCE):
            self._put_back = [_note(text, 0.0, "") for text in self._newest_files]
            self._run.has_estimate = bool(self._put_back)
        self._entries += self._put_back
        self._put_back = None


def _note(text: str, time: float, uuid: str) -> Entry:
    return Entry("user", time, uuids=[uuid], blocks=[{"type": "text", "text": text}])


def _is_before(version: str, other: tuple[int, ...]) -> bool:
    """Return whether a release is older; also if it is not named."""
    numbers = [int(part) for part in version.split(".") if part.isdecimal()]
    return tuple(numbers) < other


def attached_text(value: object) -> str:
    """Return the texts in an attachment: files' contents, snippets, plans, skills."""
    if isinstance(value, list):
        return "\n".join(filter(None, map(attached_text, value)))
    found = []
    for name, inner in mapping(value).items():
        if isinstance(inner, str):
            found += [inner] if name in ATTACHED else []
        else:
            found.append(attached_text(inner))
    return "\n".join(filter(None, found))


def _newest_files(entries: Sequence[Entry]) -> list[str]:
    """Return the last files that were read, as Claude Code puts them back after a compaction."""
    paths: dict[str, str] = {}
    files: dict[str, str] = {}
    for block in (block for entry in entries for block in entry.blocks):
        if block.get("type") == "tool_use" and block.get("name") == "Read":
            path = mapping(block.get("input")).get("file_path")
            paths[str(block.get("id"))] = str(path or "")
        elif path := paths.get(str(block.get("tool_use_id"))):
            content = block.get("content")
            files.pop(path, None)
            files[path] = content if isinstance(content, str) else attached_text(content)
    return [f"{path}\n{text[:FILE_CHARS]}" for path, text in list(files.items())[-FILES:]]


def _is_same_prompt(one: Usage | None, other: Usage | None) -> bool:
    return not (one and other and one.prompt and other.prompt) or one.prompt == other.prompt


def _preserved(record: Json) -> Iterator[str]:
    """What of the history before a compaction stays."""
    told = mapping(record.get("compactMetadata"))
    yield from map(str, items(mapping(told.get("preservedMessages")).get("uuids")))
