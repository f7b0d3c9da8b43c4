"""The history before a call, message by message, with what was shown of each."""

from collections.abc import Sequence
from dataclasses import dataclass

from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.history.event_decoding import Fields
from contextrender_bridge.engine.replay.branch_replay import BranchReplay

SHOWN_CHARACTERS = 4_000
OMITTED_CHARACTERS = 160
MANY_MESSAGES = 400


@dataclass(slots=True, frozen=True)
class CallLine:
    """A tool call of a message. `text` is the beginning of its arguments, `result` its result's
    position. `in_prompt` tells whether the prompt has the call."""

    name: str
    tokens: int
    text: str
    text_complete: bool
    result: int | None
    in_prompt: bool


@dataclass(slots=True, frozen=True)
class MessageLine:
    """One message before a model call. `display` is "complete", "excerpt", "compaction", "summary"
    or "omitted". `text` is the beginning of the text in the prompt, or of the recorded text if the
    message is omitted. `text_complete` tells whether it is the whole text."""

    position: int
    role: str
    name: str
    turn: int
    tokens: int
    display: str
    unbudgeted: bool
    text: str
    text_complete: bool
    calls: list[CallLine]


def positions_in_window(
    messages: int, shown: Sequence[int], size: int | None, end: int | None
) -> list[int]:
    """Which of the first messages to tell of: the last `size`, and the last `size` shown ones.

    Both before position `end`; without a size all.
    """
    stop = messages if end is None else min(end, messages)
    if size is None:
        return list(range(stop))
    first = max(0, stop - size)
    earlier = [position for position in shown if position < first]
    return [*earlier[max(0, len(earlier) - size) :], *range(first, stop)]


def outline(
    past: BranchReplay, rendered: RenderedCall, positions: Sequence[int]
) -> list[MessageLine]:
    """The messages at these positions."""
    history = rendered.view.history
    items = {item.message: item for item in rendered.items}
    results = dict(zip(history.results.call_event, history.results.message, strict=True))
    limit = SHOWN_CHARACTERS if len(items) < MANY_MESSAGES else SHOWN_CHARACTERS // 10
    lines = []
    for position in positions:
        item = items.get(position)
        head, *calls = past.fields_of(position)
        first = history.first_events[position]
        text, whole = beginning(
            item.text if item and item.text is not None else past.text_of(position),
            limit if item else OMITTED_CHARACTERS,
        )
        lines.append(
            MessageLine(
                position,
                history.roles[position],
                history.names.get(first, ""),
                history.turns[position],
                head["tokens"],
                _display(rendered, position) if item else "omitted",
                position in rendered.view.unbudgeted,
                text,
                whole,
                [
                    call_line(
                        fields, results.get(first + 1 + index), bool(item and index in item.calls)
                    )
                    for index, fields in enumerate(calls)
                ],
            )
        )
    return lines


def _display(rendered: RenderedCall, position: int) -> str:
    result = rendered.view.history.result_at(position)
    if (made := rendered.selection.excerpts.get(result)) is not None:
        return made.kind
    return "excerpt" if position in rendered.selection.text.cut else "complete"


def call_line(fields: Fields, result: int | None, in_prompt: bool) -> CallLine:
    """A call of a message, by its stored fields."""
    text, whole = beginning(fields["text"], OMITTED_CHARACTERS * 4)
    return CallLine(fields["name"], fields["tokens"], text, whole, result, in_prompt)


def beginning(text: str, limit: int) -> tuple[str, bool]:
    """The first `limit` characters of a text, and whether that is all of it."""
    return (text, True) if len(text) <= limit else (text[:limit], False)
