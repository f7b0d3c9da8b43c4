"""Files: agents' sessions, wherever they were copied to, our exports, and those of other programs:
requests or histories of OpenAI's and Anthropic's APIs, and traces.

A file is JSON or JSON Lines, plain or gzipped: a list of messages, an object with `messages` or
`input`, runs as `contextrender replay` reads them, or OpenTelemetry spans of model calls
(semantic conventions for GenAI), as OTLP's JSON or one span a line. A log's requests, each of which
goes on with the one before, are one run.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contextrender_bridge.audit.agent_files import agent_reader, is_agent_file, read_rollout
from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.codex import read_rollouts
from contextrender_bridge.audit.run_reader import Recorded, items, mapping, whole
from contextrender_bridge.audit.spans import Traces, spans_in
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.usage_reading import usage_of
from contextrender_bridge.base.wire import Json

SUFFIXES = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
EXPORT = "contextrender.session/"
BLOCKS = frozenset({"tool_use", "tool_result"})
SIDE_BY_SIDE = 16
"""A request of a log may continue one of this many last runs."""


def read_files(path: Path, found: AuditInput) -> None:
    """Read a file, or those in a folder. Raise CommandError if there is none."""
    files = list(found.files(path, is_session=_is_readable)) if path.is_dir() else [path]
    if not path.exists() or not files:
        raise CommandError(f"there is no {' or '.join(SUFFIXES)} file at {path}.")
    rollouts = []
    for file in files:
        reader = agent_reader(file)
        if reader is read_rollout:
            rollouts.append(file)
        elif reader is not None:
            reader(file, found)
        elif file == path or file.name.endswith(SUFFIXES):
            _read(file, found)
    read_rollouts(rollouts, found)


def _is_readable(name: str) -> bool:
    return name.endswith(SUFFIXES) or is_agent_file(name)


def _read(path: Path, found: AuditInput) -> None:
    found.counts["files"] += 1
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        is_missing = isinstance(error, OSError) and error.strerror
        found.cannot_read(path, error if is_missing else "damaged archive")
        return
    traces = Traces(path.name)
    runs: list[_Read] = []
    for number, value in enumerate(_objects(raw, found)):
        spans = list(spans_in(value))
        if spans:
            for span in spans:
                traces.add(span)
            continue
        if str(value.get("format", "")).startswith(EXPORT):
            _read_export(value, found)
            continue
        read = _run(value, f"{path.name}#{number}")
        if read is None:
            found.unknown()
        else:
            _continue(runs, read)
    for read in runs:
        for usage in read.usage:
            found.bill(read.run, "", usage)
        found.keep(read.run)
    traces.end(found)


@dataclass
class _Read:
    """A run, and how many of its messages the last request had: the answer is behind them.

    `usage` is that of its calls.
    """

    run: Recorded
    asked: int
    usage: list[Usage]


def _continue(runs: list[_Read], read: _Read) -> None:
    """Adds a run; a log has a request for each call, and one that goes on takes the place."""
    asked = read.run.messages[: read.asked]
    for earlier in reversed(runs[-SIDE_BY_SIDE:]):
        is_same_model = earlier.run.model == read.run.model
        if is_same_model and asked[: earlier.asked] == earlier.run.messages[: earlier.asked]:
            read.usage = [*earlier.usage, *read.usage]
            runs.remove(earlier)
            break
    runs.append(read)


def _read_export(value: Json, found: AuditInput) -> None:
    """Read a session that `contextrender export` wrote, each branch as a run.

    What begins anew in a session goes on after an agent's own compaction.
    """
    session, lines = str(value.get("session")), list[Recorded]()
    for number, branch in enumerate(map(mapping, items(value.get("branches")))):
        parent, fork = branch.get("parent"), whole(branch.get("fork_position"))
        run = Recorded(f"{session}#{number + 1}", "ContextRender", session)
        if fork and isinstance(parent, int) and 0 <= parent < len(lines):
            run.messages = list(lines[parent].messages[:fork])
        elif lines:
            run.continues = lines[-1].id
        run.messages += [dict(mapping(message)) for message in items(branch.get("messages"))]
        lines.append(run)
        calls = map(mapping, items(branch.get("calls")))
        run.model = next((str(call["model"]) for call in calls if call.get("model")), "")
        found.keep(run)


def _whole_value(raw: bytes) -> Any:
    """Return the file as one JSON value. A byte that is no UTF-8 is replaced."""
    try:
        return json.loads(raw)
    except UnicodeDecodeError:
        return json.loads(raw.decode("utf-8", "replace").lstrip("\ufeff"))


def _objects(raw: bytes, found: AuditInput) -> Iterator[Json]:
    """The whole file as one value, or its lines."""
    try:
        value = _whole_value(raw)
    except (ValueError, RecursionError):
        for line in raw.splitlines():
            if line.strip():
                yield from found.parsed(line)
        return
    found.counts["lines"] += 1
    if isinstance(value, dict):
        yield value
    elif isinstance(value, list) and value and all(_is_message(one) for one in value):
        yield {"messages": value}
    elif isinstance(value, list):
        yield from (one for one in value if isinstance(one, dict))


def _run(value: Json, name: str) -> _Read | None:
    """A request, with its response where that is beside it."""
    request = (
        value if "messages" in value or "input" in value else dict(mapping(value.get("request")))
    )
    model = str(request.get("model") or value.get("model") or "")
    task = str(value.get("task") or value.get("id") or name)
    run = Recorded(str(value.get("id") or name), str(value.get("source") or "file"), task, model)
    if isinstance(request.get("messages"), list):
        _add_messages(run, request)
    elif isinstance(request.get("input"), list):
        for item in request["input"]:
            run.add("responses", item)
    else:
        return None
    asked = len(run.messages)
    _add_response(run, mapping(value.get("response")))
    told = mapping(mapping(value.get("response")).get("usage") or value.get("usage"))
    usage = usage_of(run.model, told)
    return _Read(run, asked, [usage] if usage else [])


def _add_messages(run: Recorded, request: Json) -> None:
    dialect = "messages" if request.get("system") or _has_blocks(request["messages"]) else "chat"
    system = request.get("system")
    if isinstance(system, str):
        run.add("chat", {"role": "system", "content": system})
    for message in request["messages"]:
        if isinstance(message, dict):
            run.add(dialect, message)


def _add_response(run: Recorded, response: Mapping[str, object]) -> None:
    run.model = run.model or str(response.get("model") or "")
    for choice in items(response.get("choices"))[:1]:
        run.add("chat", dict(mapping(mapping(choice).get("message"))))
    for item in items(response.get("output")):
        run.add("responses", item)
    if response.get("role") == "assistant":
        run.add("messages", {"role": "assistant", "content": response.get("content")})


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and "role" in value


def _has_blocks(messages: list[Json]) -> bool:
    return any(
        mapping(block).get("type") in BLOCKS
        for message in messages
        for block in items(mapping(message).get("content"))
    )
