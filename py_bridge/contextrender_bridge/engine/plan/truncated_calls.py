"""A tool call with arguments too large to show: its texts cut in the middle, and marked."""

import json
from collections.abc import Callable
from typing import Any, Final

from contextrender_bridge.engine.plan.selection import Substitute
from contextrender_bridge.engine.text.tokens import CALL_OVERHEAD, TokenCounter, json_text
from contextrender_bridge.engine.text.transcript import Json

WHOLE: Final = "shortened"
"""The name under which arguments stand that are too many to be shortened one by one."""


def cut_call(name: str, arguments: str, limit: int, counter: TokenCounter) -> Substitute | None:
    """The arguments as a text with which the call has at most `limit` tokens; None: none fits.

    JSON stays JSON of the same shape, its longest texts cut in the middle. Where that is not
    enough, all of it is one text.
    """
    room = limit - CALL_OVERHEAD - counter.text(name)
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    if isinstance(value, dict | list):
        ways: list[Callable[[int], str]] = [
            lambda size: json_text(_shortened(value, size)),
            lambda size: json_text({WHOLE: _middle_out(arguments, size)}),
            lambda size: "{}",
        ]
    else:
        ways = [lambda size: _middle_out(arguments, size)]
    for way in ways:
        text = _largest(way, len(arguments), room, counter)
        if text is not None:
            return Substitute(text, limit - room + counter.text(text), "call")
    return None


def with_arguments(call: Json, arguments: str) -> Json:
    """The call with these arguments: an object again where they were one."""
    body = "custom" if call.get("type") == "custom" else "function"
    key = "input" if body == "custom" else "arguments"
    was = call[body].get(key)
    now = json.loads(arguments) if isinstance(was, dict | list) else arguments
    return {**call, body: {**call[body], key: now}}


def _largest(way: Callable[[int], str], most: int, room: int, counter: TokenCounter) -> str | None:
    """`way` of the largest size found that fits; None if none does."""
    least = way(0)
    if counter.text(least) > room:
        return None
    low, high, best = 0, min(most, 8 * max(room, 1)), least
    while low < high:
        size = (low + high + 1) // 2
        text = way(size)
        if counter.text(text) <= room:
            low, best = size, text
        else:
            high = size - 1
    return best


def _shortened(value: Any, size: int) -> Any:
    """The value with no text in it much longer than `size` characters."""
    if isinstance(value, str):
        return _middle_out(value, size)
    if isinstance(value, dict):
        return {key: _shortened(part, size) for key, part in value.items()}
    if isinstance(value, list):
        return [_shortened(part, size) for part in value]
    return value


def _middle_out(text: str, size: int) -> str:
    """The text, or its first and last characters, `size` in all, around a mark of what is gone."""
    mark = f"[… {len(text) - size} characters left out …]"
    if len(text) <= size + len(mark):
        return text
    head = size - size // 2
    return text[:head] + mark + text[len(text) - size // 2 :]
