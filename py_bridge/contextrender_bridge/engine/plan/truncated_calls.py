"""Tool calls with arguments that are too large: their texts are cut in the middle, with a mark."""

import json
from collections.abc import Callable
from typing import Any, Final

from contextrender_bridge.engine.plan.selection import Substitute
from contextrender_bridge.engine.text.tokens import CALL_OVERHEAD, TokenCounter, json_text
from contextrender_bridge.engine.text.transcript import Json

ALL_ARGUMENTS: Final = "shortened"
"""The name of the one argument that has all others as a text, if cutting each is not enough."""


MAX_CHARACTERS_PER_TOKEN: Final = 8
"""A text with more characters per token is cut more than it has to be."""


def cut_call(name: str, arguments: str, limit: int, counter: TokenCounter) -> Substitute | None:
    """Return cut arguments with which a call has at most `limit` tokens, or None if none fit.

    JSON stays JSON of the same shape, with its longest texts cut in the middle. If that is not
    enough, all arguments become one cut text.
    """
    fixed_tokens = CALL_OVERHEAD + counter.text(name)
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    # Each way to cut the texts to a number of characters, the one that keeps the most first.
    if isinstance(value, dict | list):
        cutters: list[Callable[[int], str]] = [
            lambda size: json_text(_cut_texts(value, size)),
            lambda size: json_text({ALL_ARGUMENTS: _cut_middle(arguments, size)}),
            lambda size: "{}",
        ]
    else:
        cutters = [lambda size: _cut_middle(arguments, size)]
    for cut in cutters:
        text = _largest_fitting(cut, len(arguments), limit - fixed_tokens, counter)
        if text is not None:
            return Substitute(text, fixed_tokens + counter.text(text), "call")
    return None


def with_arguments(call: Json, arguments: str) -> Json:
    """Return the call with these arguments, parsed from JSON if the call had them as an object."""
    body = "custom" if call.get("type") == "custom" else "function"
    key = "input" if body == "custom" else "arguments"
    is_object = isinstance(call[body].get(key), dict | list)
    value = json.loads(arguments) if is_object else arguments
    return {**call, body: {**call[body], key: value}}


def _largest_fitting(
    cut: Callable[[int], str], max_size: int, limit: int, counter: TokenCounter
) -> str | None:
    """Return `cut(size)` of the largest size with at most `limit` tokens, or None if none fits."""
    best = cut(0)
    if counter.text(best) > limit:
        return None
    low, high = 0, min(max_size, MAX_CHARACTERS_PER_TOKEN * max(limit, 1))
    while low < high:  # a binary search
        size = (low + high + 1) // 2
        text = cut(size)
        if counter.text(text) <= limit:
            low, best = size, text
        else:
            high = size - 1
    return best


def _cut_texts(value: Any, size: int) -> Any:
    """Return the value with all texts in it cut to about `size` characters."""
    if isinstance(value, str):
        return _cut_middle(value, size)
    if isinstance(value, dict):
        return {key: _cut_texts(part, size) for key, part in value.items()}
    if isinstance(value, list):
        return [_cut_texts(part, size) for part in value]
    return value


def _cut_middle(text: str, size: int) -> str:
    """Return a text's first and last characters, `size` in all, or all of it if it is short.

    Between them is a mark that says how many characters were left out.
    """
    mark = f"[… {len(text) - size} characters left out …]"
    if len(text) <= size + len(mark):
        return text
    head = size - size // 2
    return text[:head] + mark + text[len(text) - size // 2 :]
