"""For runtimes whose results come as the user's text: what of their messages to show."""

from __future__ import annotations

from collections.abc import Sequence

from contextrender_bridge.adapters.planning import Planner
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.contents import with_text

OMITTED = "Output: [not shown]"


def fitted(
    planner: Planner, messages: Sequence[Json], *, instructions: int = 0, session: str | None = None
) -> Sequence[Json]:
    """The messages to show; the same object where that is all of them.

    The first `instructions` messages are no history. After them, what follows an assistant's
    message is its result, whatever it begins with.
    """
    return planner.guarded(lambda whole: _fitted(planner, whole, instructions, session), messages)


def _fitted(
    planner: Planner, messages: Sequence[Json], instructions: int, session: str | None
) -> Sequence[Json]:
    seen = [_as_seen(messages, number, instructions) for number in range(len(messages))]
    shown = planner.shown(seen, session=session, dialect="observations")
    if shown is None:
        return messages
    left: list[Json] = []
    for number, message in enumerate(messages):
        staying = shown.of(number)
        if staying is None:
            # Many models want roles to alternate: a line answers what the agent said.
            if left and left[-1].get("role") == "assistant" != message.get("role"):
                left.append({**message, "content": OMITTED})
        elif staying.text is None:
            left.append(message)
        elif staying.text:
            left.append({**message, "content": with_text(message.get("content"), staying.text)})
    return left


def _as_seen(messages: Sequence[Json], number: int, instructions: int) -> Json:
    """The message with the role that tells a result from the user's words."""
    message = messages[number]
    if number < instructions:
        return {**message, "role": "system"}
    answers = number > instructions and messages[number - 1].get("role") == "assistant"
    if answers and message.get("role") == "user":
        return {**message, "role": "tool-response"}
    return message
