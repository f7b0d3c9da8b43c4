"""A history from the events stored of it."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from contextrender_bridge.engine.history.growable_arrays import decode_vector
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.history.reuse import Use
from contextrender_bridge.engine.text.transcript import (
    Event,
    Json,
    Role,
    digest_after,
    restore_call,
    restore_message,
)

Fields = Mapping[str, Any]


Drawn = Mapping[int, Sequence[tuple[int, list[str]]]]
"""By operation what it drew on, each result by its event's number: a branch's Reuse edges."""


def append_stored(
    history: History, stored: Iterable[Fields], embed_model: str, drawn: Drawn | None = None
) -> None:
    """Appends events given by the fields of their nodes, in order; `drawn` or else traced anew.

    Vectors of another model than `embed_model` are left out, to be made anew when needed.
    """
    history.vectors.use_model(embed_model)
    for _, group in groupby(stored, key=lambda fields: fields["position"]):
        rows = list(group)
        events = [_event(fields, index) for index, fields in enumerate(rows, -1)]
        first = history.events
        time = rows[0].get("timestamp", 0.0)
        history.append(events, rows[0]["digest"], _message(events), time)
        if drawn is None:
            history.trace(first, events)
        else:
            _credit(history, first, events, drawn)
        if rows[0].get("embedding") and rows[0]["embedding_model"] == embed_model:
            history.vectors.put(len(history.results) - 1, decode_vector(rows[0]["embedding"]))


def _credit(history: History, first: int, events: Sequence[Event], drawn: Drawn) -> None:
    for number, event in enumerate(events, first):
        if event.kind == "result":
            history.reuse.observe_result(event.text)
        for source, values in sorted(drawn.get(number, ())):
            result = bisect_left(history.results.event, source)
            if result == len(history.results.event):
                continue  # the edge was damaged, or leads to what was lost
            history.reuse.credit(Use(number, result, tuple(values)))


def stored_messages(stored: Iterable[Fields]) -> tuple[list[Json], list[float]]:
    """The original messages of stored events, in order, and when each was recorded."""
    messages: list[Json] = []
    timestamps: list[float] = []
    for _, group in groupby(stored, key=lambda fields: fields["position"]):
        rows = list(group)
        messages.append(_message([_event(fields, index) for index, fields in enumerate(rows, -1)]))
        timestamps.append(rows[0]["timestamp"])
    return messages, timestamps


def kind_of(fields: Fields) -> str:
    """What an event is: "result", "call", or the role of a message."""
    return "result" if "embedding" in fields else fields.get("role", "call")


def _event(fields: Fields, call: int) -> Event:
    kind = kind_of(fields)
    if kind == "result":
        role = "tool"
    elif kind == "call":
        role = "assistant"
    else:
        kind, role = "message", kind
    return Event(
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


def _message(events: list[Event]) -> Json:
    head, *calls = events
    return restore_message(
        head.text, head.shell, [restore_call(call.text, call.shell) for call in calls]
    )


def readable_part(stored: Sequence[Fields | None], first: int) -> list[Fields]:
    """Return the events before the first that is missing or none; the first has number `first`."""
    found: list[Fields] = []
    for number, fields in enumerate(stored, first):
        if fields is None or not is_event(fields, number):
            break
        found.append(fields)
    return found


def intact_part(stored: Sequence[Fields | None], first: int, before: str) -> list[Fields]:
    """Return the events of the messages before the first that is unlike its digest or incomplete.

    `before` is the digest of what comes before the event with number `first`.
    """
    intact: list[Fields] = []
    for _, group in groupby(readable_part(stored, first), key=lambda fields: fields["position"]):
        message = list(group)
        if not is_intact(message, before):
            break
        intact += message
        before = message[0]["digest"]
    return intact


def is_event(fields: Fields, number: int) -> bool:
    """Whether they are those of an event of that number, as far as types tell."""
    return (
        fields.get("number") == number
        and isinstance(fields.get("position"), int)
        and isinstance(fields.get("tokens"), int)
        and isinstance(fields.get("text"), str)
        and isinstance(fields.get("shell"), str)
        and isinstance(fields.get("digest"), str)
    )


def is_intact(message: Sequence[Fields], before: str) -> bool:
    """Whether a message's events restore what its digest was taken of, after that digest."""
    try:
        (restored,), _ = stored_messages(message)
        return bool(digest_after(before, restored) == message[0]["digest"])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return False
