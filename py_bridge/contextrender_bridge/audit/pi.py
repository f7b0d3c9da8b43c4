"""Reads pi's sessions, `agent/sessions/*/*.jsonl`, and OpenClaw's, which have the same events.

An event names its predecessor, so a session is a tree: a user who goes back to an earlier message
starts another branch. A fork's file begins with a copy of its parent's events. Calls whose answers
are not in the history, such as calls for summaries, are added as one separate run.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.run_reader import (
    RecordedRun,
    chat,
    counts_of,
    digest,
    items,
    mapping,
    second_of,
    tool_call,
)
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.wire import Json

SOURCE = "pi"


def read_pi(home: Path, audit_input: AuditInput) -> None:
    """Read every session below `home`, pi's own folder."""
    for path in audit_input.files(home / "sessions", "*.jsonl"):
        read_pi_session(path, audit_input)


def read_pi_session(path: Path, audit_input: AuditInput) -> None:
    """Read one session file."""
    read_events(path.stem, SOURCE, audit_input.lines(path), audit_input)


def read_events(session: str, source: str, events: Iterable[Json], audit_input: AuditInput) -> None:
    """Add the runs of a session: at least one per branch, and one of calls outside the branches.

    `source` is the name of the agent, because OpenClaw has the same events as pi.
    """
    all_events = list(events)
    other_calls = RecordedRun(f"{session}/other calls#1", source, session)
    for number, branch in enumerate(_branches(all_events)):
        name = f"{session}/{number}" if number else session
        _read_branch(name, source, session, branch, audit_input)
    _add_other_calls(other_calls, all_events, audit_input)
    audit_input.add_run(other_calls)


def _branches(events: list[Json]) -> Iterator[list[Json]]:
    """Yield the branches of a session, the newest first. Each is its events in order.

    A branch ends at an event that has a parent, but no children. If there is at most one such
    event, all events are one branch.
    """
    by_id = {str(event["id"]): event for event in events if event.get("id")}
    parents = {str(event.get("parentId") or "") for event in events}
    last_ids = [id for id, event in by_id.items() if id not in parents and event.get("parentId")]
    if len(last_ids) < 2:
        yield events
        return
    for last_id in reversed(last_ids):
        newest_first: dict[str, Json] = {}
        id = last_id
        # Go back from parent to parent. In a damaged file, events may be each other's parents.
        while id in by_id and id not in newest_first:
            newest_first[id] = by_id[id]
            id = str(by_id[id].get("parentId") or "")
        yield list(newest_first.values())[::-1]


def _read_branch(
    name: str, source: str, session: str, events: list[Json], audit_input: AuditInput
) -> None:
    """Add the runs of one branch, whose first run is named after `name`.

    A compaction ends a run. The next run begins with the summary and the events that were kept.
    """
    run = RecordedRun(f"{name}#1", source, session)
    events_in_context: list[Json] = []
    for event in events:
        kind = event.get("type")
        if kind == "message":
            events_in_context.append(event)
            _add_message(run, event)
            message = mapping(event.get("message"))
            usage_fields = mapping(message.get("usage"))
            if message.get("role") == "assistant" and usage_fields:
                _add_usage(run, event, _model_of(message), usage_fields, audit_input)
        elif kind == "compaction":
            audit_input.add_run(run)
            run = run.next_after_compaction()
            run.add("chat", {"role": "user", "content": str(event.get("summary") or "")})
            events_in_context = _events_from(events_in_context, event.get("firstKeptEntryId"))
            for kept_event in events_in_context:
                # Only the message: its usage counts in the run before the compaction.
                _add_message(run, kept_event)
    audit_input.add_run(run)


def _events_from(events: list[Json], first_id: object) -> list[Json]:
    """Return the events from `first_id` on; none if no event has that id."""
    ids = [event.get("id") for event in events]
    return events[ids.index(first_id) :] if first_id in ids else []


def _model_of(message: Mapping[str, object]) -> str:
    """Return the name of the model that answered; empty if it is not recorded."""
    return str(message.get("responseModel") or message.get("model") or "")


def _add_other_calls(run: RecordedRun, events: list[Json], audit_input: AuditInput) -> None:
    """Add the usage of calls whose answers are not in the history.

    They are calls for summaries, tools and caches. If such an event does not name the call's model,
    the model of the last answer is used.
    """
    model = ""
    for event in events:
        message = mapping(event.get("message"))
        if message.get("role") == "assistant":
            model = _model_of(message) or model
            continue
        if usage_fields := mapping(event.get("usage") or message.get("usage")):
            name = str(event.get("model") or model)
            _add_usage(run, event, name, usage_fields, audit_input)


def _add_usage(
    run: RecordedRun,
    event: Json,
    model: str,
    usage_fields: Mapping[str, object],
    audit_input: AuditInput,
) -> None:
    """Add the usage of the call in an event, as `model`'s.

    A fork has a copy of the event, with the same contents and the same id or time. So there are two
    keys: the digest of the contents with the id, and with the time.
    """
    names = ("input", "cacheRead", "cacheWrite", "cacheWrite1h", "output")
    usage, counts = None, counts_of(*map(usage_fields.get, names))
    if counts is not None:
        uncached, cache_read, all_writes, hour_writes, output = counts
        # `cacheWrite` includes the tokens of `cacheWrite1h`, which are written for an hour.
        hour_writes = min(all_writes, hour_writes)
        minute_writes = all_writes - hour_writes
        usage = Usage(model, uncached, cache_read, minute_writes, hour_writes, output)
    message = mapping(event.get("message"))
    time = second_of(event.get("timestamp")) or second_of(message.get("timestamp"))
    content_digest = digest(message.get("content"), usage_fields, message.get("model"))
    keys = [f"{run.source} {content_digest} {part}" for part in (event.get("id"), time) if part]
    audit_input.add_usage(run, tuple(keys), usage, time)


def _add_message(run: RecordedRun, event: Json) -> None:
    """Add an event's message to a run as a chat message. Thinking is left out."""
    message_fields = mapping(event.get("message"))
    role, content = message_fields.get("role"), message_fields.get("content")
    text = {"type": "text", "text": content}
    parts = [text] if isinstance(content, str) else list(map(mapping, items(content)))
    calls = [
        tool_call(part.get("id"), part.get("name"), part.get("arguments") or {})
        for part in parts
        if part.get("type") == "toolCall"
    ]
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    message = chat("tool" if role == "toolResult" else role, texts, calls)
    if role == "toolResult":
        message["tool_call_id"] = str(message_fields.get("toolCallId"))
    run.add("chat", message, second_of(event.get("timestamp")))
