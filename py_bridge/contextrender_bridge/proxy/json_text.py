"""Positions of JSON values in a text. In all functions, `at` is a position in the text.

The functions read the character at a position without checking the text's end. They raise
IndexError if the text ends too early.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import NamedTuple

_SPACE = re.compile(r"[ \t\n\r]*")


def _read_number(text: str) -> float:
    """Return a number with a fraction or an exponent. Raise ValueError if it is no finite one."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"no JSON has {number}")
    return number


read_value = json.JSONDecoder(parse_float=_read_number, parse_constant=_read_number).raw_decode
"""Return the JSON value at a position of a text, and the position after it."""


class Member(NamedTuple):
    """A value in the text of an object or a list, from `value_start` to `end`.

    `start` is the position of its `name`. In a list, the name is empty, and `start` is
    `value_start`.
    """

    name: str
    start: int
    value_start: int
    end: int


def read_members(text: str, at: int) -> Iterator[Member]:
    """Yield the members of the valid object or list at `at`, in the order of the text."""
    closing_mark = {"{": "}", "[": "]"}[text[at]]
    at = skip_space(text, at + 1)
    has_member = text[at] != closing_mark
    while has_member:
        start, name = at, ""
        if closing_mark == "}":
            name, at = read_value(text, at)
            at = skip(text, at, ":")
        _, end = read_value(text, at)
        yield Member(name, start, at, end)
        at, has_member = skip_comma(text, end)


def skip_comma(text: str, at: int) -> tuple[int, bool]:
    """Skip white space and a comma. Return the next position, and whether there was a comma."""
    at = skip_space(text, at)
    if text[at] == ",":
        return skip_space(text, at + 1), True
    return at, False


def skip(text: str, at: int, mark: str) -> int:
    """Return the position after `mark` and white space; raise ValueError if `mark` is not next."""
    at = skip_space(text, at)
    if text[at] != mark:
        raise ValueError(f"no {mark}")
    return skip_space(text, at + 1)


def skip_space(text: str, at: int) -> int:
    """Return the position after white space."""
    match = _SPACE.match(text, at)
    return match.end() if match else at
