"""The history before a call, message by message, with the part of each that the prompt has."""

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
    """A tool call of a message.

    `text` is the beginning of its arguments, and `text_complete` is true if it is all of them.
    `result` is the position of its result. `in_prompt` is true if the prompt has the call.
    """

    name: str
    tokens: int
    text: str
    text_complete: bool
    result: int | None
    in_prompt: bool


@dataclass(slots=True, frozen=True)
class MessageLine:
    """One message before a model call.

    `display` is "complete", "excerpt", "compaction", "summary" or "omitted". `text` is the
    beginning of the text in the prompt, or of the recorded text if the message is omitted.
    `text_complete` is true if it is the complete text.
    """

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
    messages: int, in_prompt: Sequence[int], size: int | None, end: int | None
) -> list[int]:
    """Return the positions of the messages to report.

    They are the last `size` messages before `end`, and before these the last `size` messages that
    are `in_prompt`. Without a size, they are all messages before `end`.
    """
    stop = messages if end is None else min(end, messages)
    if size is None:
        return list(range(stop))
    first = max(0, stop - size)
    earlier = [position for position in in_prompt if position < first]
    return [*earlier[max(0, len(earlier) - size) :], *range(first, stop)]


def outline(
    past: BranchReplay, rendered: RenderedCall, positions: Sequence[int]
) -> list[MessageLine]:
    """Return the messages at these positions."""
    history = rendered.view.history
    items = {item.message: item for item in rendered.items}
    results = dict(zip(history.results.call_event, history.results.message, strict=True))
    limit = SHOWN_CHARACTERS if len(items) < MANY_MESSAGES else SHOWN_CHARACTERS // 10
    lines = []
    for position in positions:
        item = items.get(position)
        head, *calls = past.fields_of(position)
        first = history.first_events[position]
        text, is_complete = beginning(
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
                is_complete,
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
    """Return how the prompt displays a message that it has."""
    result = rendered.view.history.result_at(position)
    if (substitute := rendered.selection.excerpts.get(result)) is not None:
        return substitute.kind
    return "excerpt" if position in rendered.selection.text.cut else "complete"


def call_line(fields: Fields, result: int | None, in_prompt: bool) -> CallLine:
    """Return a call of a message from its stored fields."""
    text, is_complete = beginning(fields["text"], OMITTED_CHARACTERS * 4)
    return CallLine(fields["name"], fields["tokens"], text, is_complete, result, in_prompt)


def beginning(text: str, limit: int) -> tuple[str, bool]:
    """Return the first `limit` characters of a text, and whether they are the complete text."""
    return (text, True) if len(text) <= limit else (text[:limit], False)
