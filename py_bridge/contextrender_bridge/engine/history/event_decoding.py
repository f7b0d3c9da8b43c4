"""Decoding of stored events: into a history, and into the original messages."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from contextrender_bridge.engine.history.growable_arrays import decode_vector
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.history.reuse import Use
from contextrender_bridge.engine.text.transcript import (
    Json,
    Role,
    TranscriptEvent,
    digest_after,
    restore_call,
    restore_message,
)

Fields = Mapping[str, Any]


StoredUses = Mapping[int, Sequence[tuple[int, list[str]]]]
"""The Reuse edges of a branch by operation: the event number of each result, and its values."""


def append_stored(
    history: History,
    rows: Iterable[Fields],
    embed_model: str,
    stored_uses: StoredUses | None = None,
) -> None:
    """Append the events whose node fields are `rows`, in order, to a history.

    Their reuse is read from `stored_uses`, or traced again if that is None. Vectors of another
    model than `embed_model` are left out, and computed again when they are needed.
    """
    history.vectors.use_model(embed_model)
    for _, group in groupby(rows, key=lambda fields: fields["position"]):
        message_rows = list(group)
        events = [_event(fields, index) for index, fields in enumerate(message_rows, -1)]
        first = history.events
        time = message_rows[0].get("timestamp", 0.0)
        history.append(events, message_rows[0]["digest"], _message(events), time)
        if stored_uses is None:
            history.trace(first, events)
        else:
            _credit(history, first, events, stored_uses)
        if message_rows[0].get("embedding") and message_rows[0]["embedding_model"] == embed_model:
            history.vectors.put(
                len(history.results) - 1, decode_vector(message_rows[0]["embedding"])
            )


def _credit(
    history: History, first: int, events: Sequence[TranscriptEvent], stored_uses: StoredUses
) -> None:
    for number, event in enumerate(events, first):
        if event.kind == "result":
            history.reuse.observe_result(event.text)
        for source, values in sorted(stored_uses.get(number, ())):
            result = bisect_left(history.results.event, source)
            if result == len(history.results.event):
                continue  # the edge is corrupted, or leads to a missing result
            history.reuse.credit(Use(number, result, tuple(values)))


def stored_messages(rows: Iterable[Fields]) -> tuple[list[Json], list[float]]:
    """Return the original messages of stored events, in order, and the time of each in seconds."""
    messages: list[Json] = []
    timestamps: list[float] = []
    for _, group in groupby(rows, key=lambda fields: fields["position"]):
        message_rows = list(group)
        messages.append(
            _message([_event(fields, index) for index, fields in enumerate(message_rows, -1)])
        )
        timestamps.append(message_rows[0]["timestamp"])
    return messages, timestamps


def kind_of(fields: Fields) -> str:
    """Return the kind of an event: "result", "call", or the role of a message."""
    return "result" if "embedding" in fields else fields.get("role", "call")


def _event(fields: Fields, call: int) -> TranscriptEvent:
    kind = kind_of(fields)
    if kind == "result":
        role = "tool"
    elif kind == "call":
        role = "assistant"
    else:
        kind, role = "message", kind
    return TranscriptEvent(
        cast(Any, kind),
        cast(Role, role),
        fields["position"],
        call,
        fields["text"],
        fields["shell"],
        fields["tokens"],
        fields.get("call_id", ""),
        fields.get("name", ""),
    )


def _message(events: list[TranscriptEvent]) -> Json:
    head, *calls = events
    return restore_message(
        head.text, head.shell, [restore_call(call.text, call.shell) for call in calls]
    )


def readable_part(rows: Sequence[Fields | None], first: int) -> list[Fields]:
    """Return the events before the first row that is missing or is not an event.

    The first row has the event number `first`.
    """
    events: list[Fields] = []
    for number, fields in enumerate(rows, first):
        if fields is None or not is_event(fields, number):
            break
        events.append(fields)
    return events


def intact_part(rows: Sequence[Fields | None], first: int, before: str) -> list[Fields]:
    """Return the events before the first message that is incomplete or does not match its digest.

    `before` is the digest of the transcript before the event with number `first`.
    """
    intact: list[Fields] = []
    for _, group in groupby(readable_part(rows, first), key=lambda fields: fields["position"]):
        message = list(group)
        if not is_intact(message, before):
            break
        intact += message
        before = message[0]["digest"]
    return intact


def is_event(fields: Fields, number: int) -> bool:
    """Return whether the fields are those of the event with that number."""
    return (
        fields.get("number") == number
        and isinstance(fields.get("position"), int)
        and isinstance(fields.get("tokens"), int)
        and isinstance(fields.get("text"), str)
        and isinstance(fields.get("shell"), str)
        and isinstance(fields.get("digest"), str)
    )


def is_intact(message: Sequence[Fields], before: str) -> bool:
    """Return whether a message's events restore a message that matches its digest.

    `before` is the digest of the transcript before the message.
    """
    try:
        (restored,), _ = stored_messages(message)
        return bool(digest_after(before, restored) == message[0]["digest"])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return False
