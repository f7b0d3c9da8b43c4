"""The history before a call, message by message, with the part of each that the prompt has."""

from collections.abc import Sequence
from dataclasses import dataclass

from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.history.event_decoding import Fields
from contextrender_bridge.engine.replay.branch_replay import BranchReplay

SHOWN_CHARACTERS = 4_000
SHOWN_CHARACTERS_OF_MANY = 400
"""The characters of each message's text, if the prompt has fewer than `MANY_MESSAGES`, or more."""
MANY_MESSAGES = 400
OMITTED_CHARACTERS = 160
CALL_CHARACTERS = 640
"""The characters of an omitted message's text, and of a call's arguments."""


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

    `display` is "complete", "excerpt", "compaction" or "omitted". `text` is the
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
    earlier_in_prompt = [position for position in in_prompt if position < first]
    last_of_these = earlier_in_prompt[max(0, len(earlier_in_prompt) - size) :]
    return [*last_of_these, *range(first, stop)]


def outline(
    branch: BranchReplay, rendered: RenderedCall, positions: Sequence[int]
) -> list[MessageLine]:
    """Return the messages at these positions."""
    history = rendered.view.history
    items = {item.message: item for item in rendered.items}
    result_of_call = dict(zip(history.results.call_event, history.results.message, strict=True))
    shown_limit = SHOWN_CHARACTERS if len(items) < MANY_MESSAGES else SHOWN_CHARACTERS_OF_MANY
    lines: list[MessageLine] = []
    for position in positions:
        head, *calls = branch.fields_of(position)
        first_event = history.first_events[position]
        text, limit, display = branch.text_of(position), OMITTED_CHARACTERS, "omitted"
        calls_in_prompt: Sequence[int] = ()
        if (item := items.get(position)) is not None:
            text = text if item.text is None else item.text
            limit, display = shown_limit, _display(rendered, position)
            calls_in_prompt = item.calls
        first_characters, is_complete = beginning(text, limit)
        lines.append(
            MessageLine(
                position=position,
                role=history.roles[position],
                name=history.names.get(first_event, ""),
                turn=history.turns[position],
                tokens=head["tokens"],
                display=display,
                unbudgeted=position in rendered.view.unbudgeted,
                text=first_characters,
                text_complete=is_complete,
                calls=[
                    call_line(
                        fields,
                        result_of_call.get(first_event + 1 + number),
                        number in calls_in_prompt,
                    )
                    for number, fields in enumerate(calls)
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
    text, is_complete = beginning(fields["text"], CALL_CHARACTERS)
    return CallLine(fields["name"], fields["tokens"], text, is_complete, result, in_prompt)


def beginning(text: str, limit: int) -> tuple[str, bool]:
    """Return the first `limit` characters of a text, and whether they are the complete text."""
    return (text, True) if len(text) <= limit else (text[:limit], False)
