"""Reads Claude Code's sessions: `projects/**/*.jsonl`, subagents included.

A streamed answer has one record for each block, with the usage so far. Its blocks are joined by the
message's id, and the last usage counts. Claude Code does not record system prompts, tools, or the
calls for titles and compactions.

After a compaction Claude Code reattaches files: it puts the files that it read last into the prompt
again, beside the summary. Long because records of one answer are joined, and files are reattached.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.run_reader import RecordedRun, digest, items, mapping, second_of
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.usage_reading import usage_of
from contextrender_bridge.base.wire import Json

SOURCE = "Claude Code"
SYNTHETIC = "<synthetic>"
RESUME = "SessionStart:resume"
REQUEST_MARK = "\0"
"""The mark between a message's id and its request's id in an answer's key."""
RECORD_MARK = "\0\0"
"""The mark between a message's id and its first record's uuid, in a key without a request's id."""
SKIPPED_NAMES = (
    "agent-color agent-name ai-title api-request api-request-blob api-request-shape atis-latch "
    "bridge-session content-replacement cost-state custom-title deferred-tools-delta "
    "file-history-snapshot invoked-skills last-prompt mode permission-mode pr-link "
    "queue-operation saved_hook_context speculation-accept summary tag task-summary tools-used "
    "worktree-state"
)
SKIPPED = frozenset(SKIPPED_NAMES.split())

REATTACHED_RECORDED_SINCE = (2, 1, 217)
"""The first release that records which files it reattaches after a compaction."""
REATTACHED_FILES, REATTACHED_CHARS = 5, 20_000
"""Earlier releases reattach this many files, up to this many characters (5,000 tokens) of each."""
ATTACHMENT_TEXT_FIELDS = frozenset({"content", "planContent", "snippet", "text"})
"""Fields of an attachment whose text is in the prompt."""


@dataclass
class Entry:
    """A message of the API, whose blocks may come from several records. Only answers have `usage`.

    `answer` is a key that identifies the answer across all files. `uuids` are the ids of its
    records. `is_resumed` means that the agent resumed the session just before this message.
    """

    role: str
    time: float
    answer: str = ""
    uuids: list[str] = field(default_factory=list)
    blocks: list[Json] = field(default_factory=list)
    usage: Usage | None = None
    is_resumed: bool = False


def read_claude(home: Path, audit_input: AuditInput) -> None:
    """Read every session below `home`, Claude Code's own folder."""
    for path in audit_input.files(home / "projects", "*.jsonl"):
        read_claude_session(path, audit_input)


def read_claude_session(path: Path, audit_input: AuditInput) -> None:
    """Read one session file."""
    _Session(path, audit_input).read()


class _Session:
    """The state of reading one session file, record by record."""

    def __init__(self, path: Path, audit_input: AuditInput) -> None:
        """Prepare to read the file `path`, and to add its runs to `audit_input`."""
        self._path, self._audit_input = path, audit_input
        self._entries: list[Entry] = []
        # Answers that may still be continued, by the message's id and, if recorded, the request's.
        self._open_answers: dict[str, Entry] = {}
        self._run = RecordedRun(f"{path.stem}#1", SOURCE, path.stem)
        # The agent resumed the session after the last answer, so it may have lost the cache.
        self._was_resumed = False
        # The files that were reattached after the last compaction: empty if none is recorded (yet);
        # None before the first compaction, and from the next answer on.
        self._reattached: list[Entry] | None = None
        # The texts of the files that were read last before the last compaction.
        self._newest_files: list[str] = []

    def read(self) -> None:
        """Read all records of the file, and add its runs. A compaction begins the next run."""
        for record in self._audit_input.lines(self._path):
            kind = record.get("type")
            if kind == "system":
                if record.get("subtype") == "compact_boundary":
                    metadata = mapping(record.get("compactMetadata"))
                    preserved = mapping(metadata.get("preservedMessages")).get("uuids")
                    self._end_run(set(map(str, items(preserved))))
            elif kind in ("user", "assistant"):
                self._read_message(record, str(kind))
            elif kind == "attachment":
                self._read_attachment(record)
            elif kind == "progress":  # it may report that the session was resumed
                self._was_resumed |= mapping(record.get("data")).get("hookName") == RESUME
            elif kind not in SKIPPED:
                self._audit_input.count_unknown()
        self._end_run(set())

    def _end_run(self, preserved: set[str]) -> None:
        """Add the run that ends here, with its messages and usage, and begin the next run.

        The next run begins with the messages that a compaction preserved: those of the records
        whose uuids are in `preserved`.
        """
        for entry in self._entries:
            if entry.blocks:
                message = {"role": entry.role, "content": entry.blocks}
                self._run.add("messages", message, entry.time)
            if entry.role == "assistant":
                self._audit_input.add_usage(
                    self._run, entry.answer, entry.usage, entry.time, resumed=entry.is_resumed
                )
        self._audit_input.add_run(self._run)

        # From here on, prepare the run after the compaction.
        self._run = self._run.next_after_compaction()
        # The compaction may reattach the files that the agent read last.
        self._reattached, self._newest_files = [], _newest_files(self._entries)
        self._entries = [entry for entry in self._entries if preserved & set(entry.uuids)]
        for entry in self._entries:
            entry.usage = None  # the run before the compaction has it
        self._open_answers = {}

    def _read_message(self, record: Json, role: str) -> None:
        """Add a record's blocks and usage to the entry of its message.

        Skip messages that Claude Code itself wrote in the model's name. Before the first answer
        after a compaction, add the reattached files. A user's text ends the answers before it.
        """
        message = mapping(record.get("message"))
        if message.get("model") == SYNTHETIC:
            return
        # A content that is a text is one block.
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else items(content)
        if not blocks:
            self._audit_input.count_unknown()
        usage = None  # only an answer has usage
        if role == "assistant":
            self._add_reattached(str(record.get("version") or ""))
            usage = usage_of(str(message.get("model") or ""), mapping(message.get("usage")))
        entry = self._entry(record, role, str(message.get("id") or ""), usage)
        # Another record of the same answer may repeat blocks. Its usage replaces the earlier one.
        entry.uuids.append(str(record.get("uuid") or ""))
        entry.blocks += [b for b in blocks if isinstance(b, dict) and b not in entry.blocks]
        if usage is not None:
            entry.is_resumed |= self._was_resumed
            self._was_resumed = False
            if entry.usage is None or usage.prompt or usage.output:  # an empty usage is ignored
                entry.usage = usage
        has_users_text = any(mapping(block).get("type") != "tool_result" for block in blocks)
        if role == "user" and has_users_text:
            # Forget open answers without a request's id: later answers may have their message id.
            answers = self._open_answers.items()
            self._open_answers = {key: answer for key, answer in answers if REQUEST_MARK in key}

    def _entry(self, record: Json, role: str, id: str, usage: Usage | None) -> Entry:
        """Return the entry of a record: that of its answer's earlier records, or a new one.

        Records of one answer have the same message `id`. Some gateways give all answers the same
        `id`, so the request's id must be equal, too. If a record has no request's id, its prompt
        must have as many tokens as that of the earlier records.
        """
        time = second_of(record.get("timestamp"))
        uuid, request = str(record.get("uuid") or ""), str(record.get("requestId") or "")
        # `key` finds an open answer of this file. `answer_key` identifies an answer in all files.
        key = f"{id}{REQUEST_MARK}{request}" if request else id
        answer_so_far = self._open_answers.get(key) if role == "assistant" and id else None
        if answer_so_far and (request or _is_same_prompt(answer_so_far.usage, usage)):
            return answer_so_far
        answer_key = key if request else f"{id}{RECORD_MARK}{uuid or digest(record)}"
        entry = Entry(role, time, answer_key)
        self._entries.append(entry)
        if role == "assistant" and id:
            self._open_answers[key] = entry
        return entry

    def _read_attachment(self, record: Json) -> None:
        """Keep an attachment's text if it was reattached after a compaction.

        It was if no answer has come since the compaction.
        """
        text = attached_text(record.get("attachment"))
        if self._reattached is not None and text:
            time = second_of(record.get("timestamp"))
            self._reattached.append(_user_entry(text, time, str(record.get("uuid") or "")))

    def _add_reattached(self, version: str) -> None:
        """Add to the run the files that Claude Code reattached after a compaction, if any.

        `version` is the release of Claude Code. Older releases do not record these files, so the
        files that were read last are assumed.
        """
        if self._reattached is None:  # there is no compaction, or an answer came after it
            return
        if not self._reattached and _is_before(version, REATTACHED_RECORDED_SINCE):
            self._reattached = [_user_entry(text, 0.0, "") for text in self._newest_files]
            self._run.has_estimate = bool(self._reattached)
        self._entries += self._reattached
        self._reattached = None


def _user_entry(text: str, time: float, uuid: str) -> Entry:
    """Return a user's message that has a reattached file's text."""
    return Entry("user", time, uuids=[uuid], blocks=[{"type": "text", "text": text}])


def _is_before(version: str, other: tuple[int, ...]) -> bool:
    """Return whether a release such as `2.1.9` is older than another one.

    A version without numbers counts as older.
    """
    numbers = [int(part) for part in version.split(".") if part.isdecimal()]
    return tuple(numbers) < other


def attached_text(value: object) -> str:
    """Return all texts in an attachment and the values inside it, joined by newlines.

    They are files' contents, snippets, plans and skills.
    """
    if isinstance(value, list):
        return "\n".join(filter(None, map(attached_text, value)))
    texts = []
    for name, inner in mapping(value).items():
        if not isinstance(inner, str):
            texts.append(attached_text(inner))
        elif name in ATTACHMENT_TEXT_FIELDS:
            texts.append(inner)
    return "\n".join(filter(None, texts))


def _newest_files(entries: Sequence[Entry]) -> list[str]:
    """Return the files that the agent read last, each as its path and the beginning of its text.

    Claude Code reattaches them in this form.
    """
    path_by_call: dict[str, str] = {}
    text_by_path: dict[str, str] = {}  # in the order in which the files were last read
    for block in (block for entry in entries for block in entry.blocks):
        if block.get("type") == "tool_use" and block.get("name") == "Read":
            path = mapping(block.get("input")).get("file_path")
            path_by_call[str(block.get("id"))] = str(path or "")
        elif path := path_by_call.get(str(block.get("tool_use_id"))):
            content = block.get("content")
            text_by_path.pop(path, None)  # so that the path becomes the last item
            text_by_path[path] = content if isinstance(content, str) else attached_text(content)
    newest = list(text_by_path.items())[-REATTACHED_FILES:]
    return [f"{path}\n{text[:REATTACHED_CHARS]}" for path, text in newest]


def _is_same_prompt(usage: Usage | None, other: Usage | None) -> bool:
    """Return whether two usages may be of the same prompt: the prompts' tokens are equal.

    Return True if one of them is unknown.
    """
    if not (usage and other and usage.prompt and other.prompt):
        return True
    return usage.prompt == other.prompt
