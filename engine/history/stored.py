"""A history from the events stored of it."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from engine.history.history import History
from engine.history.reuse import Use
from engine.history.vectors import decode_vector
from engine.text.transcript import (
    Event,
    Json,
    Role,
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


def _event(fields: Fields, call: int) -> Event:
    if "embedding" in fields:
        kind, role = "result", "tool"
    elif "role" in fields:
        kind, role = "message", fields["role"]
    else:
        kind, role = "call", "assistant"
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
