"""Decoding of stored events: into a history, and into the original messages."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, cast

from contextrender_bridge.engine.history.growable_arrays import decode_vectors
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

_ROLES: Final = {"result": "tool", "call": "assistant"}
"""The role of an event's message, by the kind of the event. The kind of a text is its role."""

StoredUses = Mapping[int, Sequence[tuple[int, list[str]]]]
"""The Reuse edges of a branch, by the event number of their operation.

An edge has the event number of the result that the operation used, and the used values.
"""


def append_stored(
    history: History,
    rows: Iterable[Fields],
    embed_model: str,
    stored_uses: StoredUses | None = None,
) -> None:
    """Append stored messages to a history. `rows` has the fields of their events' nodes, in order.

    The uses of results are read from `stored_uses`. If it is None, they are traced again from the
    texts. Stored vectors of another model than `embed_model` are left out; they are computed again
    when they are needed.
    """
    history.vectors.use_model(embed_model)
    vectors: dict[int, bytes] = {}  # the stored vectors by the results' numbers
    for message_rows in _by_message(rows):
        head = message_rows[0]  # the message's text or result; its calls follow
        events = _events_of(message_rows)
        first_event = history.events
        history.append(events, head["digest"], _message(events), head.get("timestamp", 0.0))
        # Add the message's uses of results.
        if stored_uses is None:
            history.trace(first_event, events)
        else:
            _add_stored_uses(history, first_event, events, stored_uses)
        if head.get("embedding") and head["embedding_model"] == embed_model:
            vectors[len(history.results) - 1] = head["embedding"]
    # A model's vectors have one dimension. If a row is damaged, all vectors are computed again.
    if vectors:
        with suppress(ValueError):
            history.vectors.put([*vectors], decode_vectors([*vectors.values()]))


def _by_message(rows: Iterable[Fields]) -> Iterator[list[Fields]]:
    """Yield the rows of each message. The first row is its text or result; its calls follow."""
    for _, message_rows in groupby(rows, key=itemgetter("position")):
        yield list(message_rows)


def _events_of(message_rows: Sequence[Fields]) -> list[TranscriptEvent]:
    """Return the events of a message's rows. Its calls are numbered from 0."""
    return [_event(fields, call) for call, fields in enumerate(message_rows, -1)]


def _add_stored_uses(
    history: History, first_event: int, events: Sequence[TranscriptEvent], stored_uses: StoredUses
) -> None:
    """Add a message to the history's reuse index, with the stored uses instead of traced ones.

    If the message is a result, add its values. Otherwise add the stored uses by its text and calls.
    The message's events are numbered from `first_event`.
    """
    for number, event in enumerate(events, first_event):
        if event.kind == "result":
            history.reuse.observe_result(event.text)
        if number not in stored_uses:
            continue
        for used_event, values in sorted(stored_uses[number]):
            # Translate the event number of the used result into its number among the results.
            result_events = history.results.event
            result = bisect_left(result_events, used_event)
            if result == len(result_events) or result_events[result] != used_event:
                continue  # the edge is corrupted, or leads to a missing result
            history.reuse.credit(Use(number, result, tuple(values)))


def stored_messages(rows: Iterable[Fields]) -> tuple[list[Json], list[float]]:
    """Return the original messages of stored events, and their times in seconds, both in order."""
    messages: list[Json] = []
    timestamps: list[float] = []
    for message_rows in _by_message(rows):
        messages.append(_message(_events_of(message_rows)))
        timestamps.append(message_rows[0]["timestamp"])
    return messages, timestamps


def kind_of(fields: Fields) -> str:
    """Return the kind of an event: "result", "call", or for a message's text the message's role.

    Only nodes of results have a field `embedding`, and only nodes of texts have a field `role`.
    """
    return "result" if "embedding" in fields else fields.get("role", "call")


def _event(fields: Fields, call: int) -> TranscriptEvent:
    """Return an event from its fields.

    `call` is the number of the call in its message, or -1 if the event is no call.
    """
    kind = kind_of(fields)
    return TranscriptEvent(
        kind=cast(Any, kind if kind in _ROLES else "message"),
        role=cast(Role, _ROLES.get(kind, kind)),
        message=fields["position"],
        call=call,
        text=fields["text"],
        shell=fields["shell"],
        tokens=fields["tokens"],
        call_id=fields.get("call_id", ""),
        name=fields.get("name", ""),
    )


def _message(events: list[TranscriptEvent]) -> Json:
    """Return the original message that was split into these events."""
    head, *calls = events
    return restore_message(
        head.text, head.shell, [restore_call(call.text, call.shell) for call in calls]
    )


def readable_part(rows: Sequence[Fields | None], first: int) -> list[Fields]:
    """Return the rows before the first row that is missing or lacks a field of an event.

    The first row belongs to the event with number `first`.
    """
    events: list[Fields] = []
    for number, fields in enumerate(rows, first):
        if fields is None or not is_event(fields, number):
            break
        events.append(fields)
    return events


def intact_part(rows: Sequence[Fields | None], first: int, before: str) -> list[Fields]:
    """Return the rows before the first message that is incomplete or does not match its digest.

    The first row belongs to the event with number `first`. `before` is the digest of the transcript
    before this event.
    """
    intact: list[Fields] = []
    for message_rows in _by_message(readable_part(rows, first)):
        if not is_intact(message_rows, before):
            break
        intact += message_rows
        before = message_rows[0]["digest"]
    return intact


def is_event(fields: Fields, number: int) -> bool:
    """Return whether `fields` has the number and the types of fields of the event `number`."""
    return (
        fields.get("number") == number
        and isinstance(fields.get("position"), int)
        and isinstance(fields.get("tokens"), int)
        and isinstance(fields.get("text"), str)
        and isinstance(fields.get("shell"), str)
        and isinstance(fields.get("digest"), str)
    )


def is_intact(message_rows: Sequence[Fields], before: str) -> bool:
    """Return whether a message's rows restore a message that matches its digest.

    `before` is the digest of the transcript before the message.
    """
    try:
        (restored,), _ = stored_messages(message_rows)
        return bool(digest_after(before, restored) == message_rows[0]["digest"])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return False
