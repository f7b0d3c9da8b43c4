"""Cutting the arguments of tool calls that are too large: a mark replaces the middle of texts."""

import json
from collections.abc import Callable
from typing import Any, Final

from contextrender_bridge.engine.plan.selection import Substitute
from contextrender_bridge.engine.text.tokens import CALL_OVERHEAD, TokenCounter, json_text
from contextrender_bridge.engine.text.transcript import Json

ALL_ARGUMENTS: Final = "shortened"
"""If cutting each argument is not enough, one argument of this name has all of them as a text."""

MAX_CHARACTERS_PER_TOKEN: Final = 8
"""The search for the largest text that fits tries at most this number of characters per token.

A text whose tokens are longer on average is cut more than needed.
"""


def cut_call(name: str, arguments: str, limit: int, counter: TokenCounter) -> Substitute | None:
    """Return cut arguments with which a call of the tool `name` has at most `limit` tokens.

    JSON arguments stay valid JSON. Return None if not even the smallest arguments fit.
    """
    fixed_tokens = CALL_OVERHEAD + counter.text(name)
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    # A cutter returns arguments whose texts have about `size` characters. Use the first cutter with
    # which some size fits the limit.
    if isinstance(value, dict | list):
        cutters: list[Callable[[int], str]] = [
            # JSON of the same shape, with each text in it cut
            lambda size: json_text(_cut_texts(value, size)),
            # one argument, with the original JSON as a cut text
            lambda size: json_text({ALL_ARGUMENTS: _cut_middle(arguments, size)}),
            # no arguments, as the last resort
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
    """Return a copy of the call with `arguments`, a text, instead of its own arguments.

    If the call's own arguments are an object or a list, and no JSON text, parse `arguments`.
    """
    body_key, argument_key = "function", "arguments"
    if call.get("type") == "custom":
        body_key, argument_key = "custom", "input"
    body = call[body_key]
    is_object = isinstance(body.get(argument_key), dict | list)
    value = json.loads(arguments) if is_object else arguments
    return {**call, body_key: {**body, argument_key: value}}


def _largest_fitting(
    cut: Callable[[int], str], max_size: int, limit: int, counter: TokenCounter
) -> str | None:
    """Return `cut(size)` for the largest size with which it has at most `limit` tokens.

    Return None if not even `cut(0)` fits.
    """
    best = cut(0)
    if counter.text(best) > limit:
        return None
    # A binary search: `best` is the text of size `low`, and sizes above `high` do not fit.
    low, high = 0, min(max_size, MAX_CHARACTERS_PER_TOKEN * max(limit, 1))
    while low < high:
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
    """Replace the middle of a text by a mark, so that `size` characters of the text remain.

    Return the text unchanged if it would not become shorter.
    """
    mark = f"[… {len(text) - size} characters left out …]"
    if len(text) <= size + len(mark):
        return text
    tail = size // 2
    head = size - tail
    return text[:head] + mark + text[len(text) - tail :]
