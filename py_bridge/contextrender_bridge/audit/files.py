"""Reads the files that a user names.

They may be agents' sessions, exports of ContextRender, request logs of OpenAI's and Anthropic's
APIs, or traces. Long because each of these has a format of its own. The contents show which agent
wrote a file, so that copies can be read, too.

A file is JSON or JSON Lines, plain or gzipped. It holds a list of messages, objects with `messages`
or `input`, runs as `contextrender replay` reads them, or OpenTelemetry spans of model calls
(semantic conventions for GenAI), either as OTLP's JSON or one span per line. Requests in a log that
each repeat the previous request's messages and add more are read as one run.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.claude import SKIPPED, read_claude_session
from contextrender_bridge.audit.codex import read_rollouts
from contextrender_bridge.audit.hermes import read_hermes_store
from contextrender_bridge.audit.openclaw import read_openclaw_store
from contextrender_bridge.audit.opencode import read_opencode_store
from contextrender_bridge.audit.opening import json_values, lines_in, to_utf8
from contextrender_bridge.audit.pi import read_pi_session
from contextrender_bridge.audit.run_reader import RecordedRun, items, mapping
from contextrender_bridge.audit.spans import Traces, spans_in
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.usage_reading import count_of, usage_of
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.call.session_import import EXPORT_NAME

Reader = Callable[[Path, AuditInput], None]
STORE_READERS: Mapping[str, Reader] = {
    "session_message": read_opencode_store,
    "message": read_opencode_store,
    "transcript_events": read_openclaw_store,
    "messages": read_hermes_store,
}
"""Readers of SQLite stores, by a table name that only one agent's store has."""
SQLITE_HEADER = b"SQLite format 3\0"
CLAUDE_KINDS = frozenset({"user", "assistant", "system", "progress", "attachment"}) | SKIPPED
SNIFFED_LINES = 5
"""The number of lines that are read to recognize a file."""
SUFFIXES = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
READABLE = (*(f"*{suffix}" for suffix in SUFFIXES), "*.db", "*.sqlite", "*.jsonl.zst")
"""The names of files that may be a log, a trace or an agent's session."""
BLOCKS = frozenset({"tool_use", "tool_result"})
PARALLEL_RUNS = 16
"""The number of runs in a log, counted from the newest, that a request may continue."""


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


def read_files(path: Path, audit_input: AuditInput) -> None:
    """Add the runs in a file, or in all files of a folder, to the input.

    Raise CommandError if there is no file at `path` that may be readable by its name.
    """
    files = list(audit_input.files(path, *READABLE)) if path.is_dir() else [path]
    if not path.exists() or not files:
        raise CommandError(f"there is no {' or '.join(SUFFIXES)} file at {path}.")
    rollouts = []
    for file in files:
        reader = agent_reader(file)
        is_named_by_user = file == path
        if reader is read_rollout:
            rollouts.append(file)  # Codex's files are read together, to find copies among them
        elif reader is not None:
            reader(file, audit_input)
        # In a folder, other files are read only if their names end like those of logs.
        elif is_named_by_user or file.name.endswith(SUFFIXES):
            _read(file, audit_input)
    read_rollouts(rollouts, audit_input)


def _read(path: Path, audit_input: AuditInput) -> None:
    """Add the runs in a file of JSON: traces, exported sessions and logged requests.

    Requests that continue each other become one run. Other objects are counted as unknown lines.
    """
    raw = _contents(path, audit_input)
    traces = Traces(path.name)
    runs: list[_RequestRun] = []
    for number, value in enumerate(_objects(raw, audit_input)):
        if spans := list(spans_in(value)):
            for span in spans:
                traces.add(span)
        elif str(value.get("format", "")).startswith(EXPORT_NAME):
            _read_export(value, audit_input)
        elif request_run := _run_of_request(value, f"{path.name}#{number}"):
            _add_request(runs, request_run)
        else:
            audit_input.count_unknown()
    # Only now is it clear which requests belong to which run.
    for request_run in runs:
        for usage in request_run.usage:
            audit_input.add_usage(request_run.run, "", usage)
        audit_input.add_run(request_run.run)
    traces.add_runs(audit_input)


def _contents(path: Path, audit_input: AuditInput) -> bytes:
    """Return the contents of a plain or gzipped file in UTF-8, and count the file.

    If it cannot be read, record that and return no bytes.
    """
    audit_input.counts["files"] += 1
    try:
        raw = path.read_bytes()
        return to_utf8(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    except (OSError, EOFError, zlib.error) as error:
        has_reason = isinstance(error, OSError) and error.strerror
        audit_input.cannot_read(path, error if has_reason else "damaged archive")
        return b""


@dataclass
class _RequestRun:
    """A run made of logged requests, with the usage of its calls.

    `prompt_length` is the number of messages in the last request. The run's later messages are the
    answer to this request.
    """

    run: RecordedRun
    prompt_length: int
    usage: list[Usage]

    @property
    def prompt(self) -> list[Json]:
        """The messages of the last request."""
        return self.run.messages[: self.prompt_length]


def _add_request(runs: list[_RequestRun], request_run: _RequestRun) -> None:
    """Add the run of one request to `runs`. If it continues an earlier run, it replaces that run.

    A log has one request for each call, and each request repeats the messages before it. So it
    continues a run if its prompt begins with the run's last prompt.
    """
    for earlier in reversed(runs[-PARALLEL_RUNS:]):
        is_same_model = earlier.run.model == request_run.run.model
        if is_same_model and request_run.prompt[: earlier.prompt_length] == earlier.prompt:
            request_run.usage = [*earlier.usage, *request_run.usage]
            runs.remove(earlier)
            break
    runs.append(request_run)


def _read_export(value: Json, audit_input: AuditInput) -> None:
    """Add the runs of a session that `contextrender export` wrote, one for each branch."""
    session, runs = str(value.get("session")), list[RecordedRun]()
    for number, branch in enumerate(map(mapping, items(value.get("branches"))), 1):
        parent, fork_position = branch.get("parent"), count_of(branch.get("fork_position"))
        run = RecordedRun(f"{session}#{number}", "ContextRender", session)
        # A fork begins with a copy of its parent's messages.
        if fork_position and isinstance(parent, int) and 0 <= parent < len(runs):
            run.messages = list(runs[parent].messages[:fork_position])
        elif runs:
            # A branch that is no fork begins after a compaction by the agent.
            run.continues = runs[-1].id
        run.messages += [dict(mapping(message)) for message in items(branch.get("messages"))]
        runs.append(run)
        # The branch's model is the model of its first call that names one.
        calls = map(mapping, items(branch.get("calls")))
        run.model = next((str(call["model"]) for call in calls if call.get("model")), "")
        audit_input.add_run(run)


def _single_value(raw: bytes) -> Any:
    """Return the value of a file that is one JSON value. Invalid UTF-8 is replaced.

    Raise ValueError or RecursionError if it is not.
    """
    try:
        return json.loads(raw)
    except UnicodeDecodeError:
        return json.loads(raw.decode("utf-8", "replace").lstrip("\ufeff"))


def _objects(raw: bytes, audit_input: AuditInput) -> Iterator[Json]:
    """Yield the JSON objects in a file's contents, which are one JSON value or JSON Lines.

    A list of messages is yielded as one object, `{"messages": LIST}`. Of another list, its objects
    are yielded.
    """
    try:
        value = _single_value(raw)
    except (ValueError, RecursionError):
        # It is not one value, so read it as JSON Lines.
        for line in raw.splitlines():
            if line.strip():
                yield from audit_input.parsed(line)
        return
    audit_input.counts["lines"] += 1
    if isinstance(value, dict):
        yield value
    elif value and isinstance(value, list) and all("role" in mapping(item) for item in value):
        yield {"messages": value}
    elif isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def _run_of_request(value: Json, name: str) -> _RequestRun | None:
    """Return the run of a logged request; None if `value` is not a request.

    `value` is a request itself, or an object with a `request` and perhaps a `response`. The run has
    the messages of the request and then the answer in the response. `name` identifies the run if
    the log has no id.
    """
    # Find the request, and name the run after the log's fields.
    is_request_itself = "messages" in value or "input" in value
    request = value if is_request_itself else dict(mapping(value.get("request")))
    model = str(request.get("model") or value.get("model") or "")
    task = str(value.get("task") or value.get("id") or name)
    run = RecordedRun(str(value.get("id") or name), str(value.get("source") or "file"), task, model)
    # Add the system prompt and the history.
    dialect = _dialect_of(request)
    if dialect is None:
        return None
    run.add_request(dialect, request)
    prompt_length = len(run.messages)
    # Add the answer and its usage.
    response = mapping(value.get("response"))
    _add_response(run, response)
    usage = usage_of(run.model, mapping(response.get("usage") or value.get("usage")))
    return _RequestRun(run, prompt_length, [usage] if usage else [])


def _dialect_of(request: Json) -> str | None:
    """Return the format of a logged request; None if it is not a request with a history.

    `messages` are of chat completions or Anthropic's API, and `input` is of Responses.
    """
    messages, input_value = request.get("messages"), request.get("input")
    if isinstance(messages, list):
        # Only Anthropic's requests have a system prompt outside the messages, or such blocks.
        return "messages" if request.get("system") or _has_blocks(messages) else "chat"
    # Objects other than requests may have a text as `input`, too, but name no model.
    is_text_request = isinstance(input_value, str) and "model" in request
    return "responses" if isinstance(input_value, list) or is_text_request else None


def _add_response(run: RecordedRun, response: Mapping[str, object]) -> None:
    """Add the answer in a response to a run, whatever its format.

    Each format has the answer in a field of its own: `choices` in chat completions, `output` in
    Responses, and `content` in Messages.
    """
    run.model = run.model or str(response.get("model") or "")
    for choice in items(response.get("choices"))[:1]:
        run.add("chat", dict(mapping(mapping(choice).get("message"))))
    for item in items(response.get("output")):
        run.add("responses", item)
    if response.get("role") == "assistant":
        run.add("messages", {"role": "assistant", "content": response.get("content")})


def _has_blocks(messages: list[Json]) -> bool:
    """Return whether messages have content blocks that only Anthropic's API has."""
    return any(
        mapping(block).get("type") in BLOCKS
        for message in messages
        for block in items(mapping(message).get("content"))
    )
