"""The history before a call, message by message, and how the prompt shows each message."""

from collections.abc import Sequence
from dataclasses import dataclass

from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.history.event_decoding import Fields
from contextrender_bridge.engine.plan.selection import PlannedMessage
from contextrender_bridge.engine.replay.branch_replay import BranchReplay

# The number of first characters that are reported of each text:
SHOWN_CHARACTERS = 4_000  # of a message in the prompt
SHOWN_CHARACTERS_OF_MANY = 400  # of a message in a prompt with at least `MANY_MESSAGES` messages
MANY_MESSAGES = 400
OMITTED_CHARACTERS = 160  # of an omitted message
CALL_CHARACTERS = 640  # of a call's arguments


@dataclass(slots=True, frozen=True)
class CallLine:
    """A tool call of a message.

    `text` is the beginning of the call's arguments. `text_complete` is true if `text` has all
    arguments. `result` is the position of the call's result, or None. `in_prompt` is true if the
    prompt has the call.
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

    `display` is "complete", "excerpt", "compaction" or "omitted". `text` is the beginning of the
    text in the prompt, or of the recorded text if the message is omitted. `text_complete` is true
    if that text is not longer.
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
    messages: int, prompt: Sequence[PlannedMessage], size: int | None, end: int | None
) -> list[int]:
    """Return the positions of the messages to report, of a history with `messages` messages.

    Without `size`, return all messages before the position `end`. With `size`, return a window, the
    last `size` messages before `end`, and also the last `size` messages before the window that are
    in the `prompt`. If `end` is None, the window ends with the history.
    """
    stop = messages if end is None else min(end, messages)
    if size is None:
        return list(range(stop))
    first = max(0, stop - size)
    earlier_in_prompt = [item["message"] for item in prompt if item["message"] < first]
    reported_earlier = earlier_in_prompt[max(0, len(earlier_in_prompt) - size) :]
    return [*reported_earlier, *range(first, stop)]


def outline(
    branch: BranchReplay, rendered: RenderedCall, positions: Sequence[int]
) -> list[MessageLine]:
    """Return a line for each message at these positions, as the rendered prompt shows it.

    If the prompt omits a message, its line has the beginning of the recorded text.
    """
    history = rendered.context.history
    items = {item["message"]: item for item in rendered.items}
    # The position of each call's result, by the call's event.
    result_of_call = dict(zip(history.results.call_event, history.results.message, strict=True))
    shown_limit = SHOWN_CHARACTERS if len(items) < MANY_MESSAGES else SHOWN_CHARACTERS_OF_MANY
    lines: list[MessageLine] = []
    for position in positions:
        head, *calls = branch.fields_of(position)
        item = items.get(position)
        first_event = history.first_events[position]
        # The message's text: as the prompt shows it, or as recorded if the prompt omits it.
        if item is None:
            text, is_complete = beginning(branch.text_of(position), OMITTED_CHARACTERS)
        else:
            shown_text = branch.text_of(position) if item["text"] is None else item["text"]
            text, is_complete = beginning(shown_text, shown_limit)
        # Its calls.
        calls_in_prompt = item["calls"] if item else ()
        call_lines: list[CallLine] = []
        for number, fields in enumerate(calls):
            result = result_of_call.get(first_event + 1 + number)  # calls follow the first event
            call_lines.append(call_line(fields, result, number in calls_in_prompt))
        lines.append(
            MessageLine(
                position=position,
                role=history.roles[position],
                name=history.names.get(first_event, ""),
                turn=history.turns[position],
                tokens=head["tokens"],
                display=_display(rendered, position) if item else "omitted",
                unbudgeted=position in rendered.context.unbudgeted,
                text=text,
                text_complete=is_complete,
                calls=call_lines,
            )
        )
    return lines


def _display(rendered: RenderedCall, position: int) -> str:
    """Return how the prompt displays a message that it has."""
    result = rendered.context.history.result_at(position)  # -1 for another message
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
