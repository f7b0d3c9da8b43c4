"""Incremental parsing of request bodies: only the new part of a body is parsed.

An agent sends its whole history with each request. If a body begins with the same text as an
earlier one, up to the end of an item, the parsed items of the earlier body are reused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects import Dialect, Transcript

REMEMBERED = 64
MAX_CHARACTERS = 64 * 2**20
CHANGEABLE_ITEMS = 6
"""The number of last items that the next request may change, because cache marks move."""
TRANSCRIPTS = 3
LARGE_CHARACTERS = 16 * 2**20
"""A body with more characters is dropped during a pause; its next request is parsed in full."""

_SPACE = re.compile(r"[ \t\n\r]*")
_value = json.JSONDecoder().raw_decode


@dataclass
class Body:
    """A request body.

    - `head`: the text up to the end of the last item. A later body that continues this one begins
      with it. Empty if the body has no items.
    - `fields_before`: the fields that come before the items in the text.
    - `reused_count`: the number of first items that were taken from an earlier body.
    - `starts`, `ends`: the positions in the text where each item begins and ends.
    - `transcripts`: this body's transcript, after those of earlier bodies that it continues.
    - `open`, `close`: the positions in the text after the opening and before the closing bracket
      of the list of items; 0 if they are unknown.
    """

    fields: Json
    head: str = field(default="", repr=False)
    fields_before: Mapping[str, Any] = field(default_factory=dict, repr=False)
    items: list[Any] = field(default_factory=list, repr=False)
    starts: list[int] = field(default_factory=list, repr=False)
    ends: list[int] = field(default_factory=list, repr=False)
    open: int = 0
    close: int = 0
    reused_count: int = 0
    transcripts: list[Transcript] = field(default_factory=list, repr=False)

    def read(self, reader: Dialect) -> Transcript:
        """Return the request's transcript, continued from an earlier one if possible."""
        transcript = reader.read(self.fields, self.transcripts[-1] if self.transcripts else None)
        self.transcripts = [*self.transcripts, transcript][-TRANSCRIPTS:]
        return transcript


class RecentBodies:
    """The last request body of each of the most recent histories."""

    def __init__(self) -> None:
        """Remember no body yet."""
        self._bodies: list[Body] = []

    def read(self, raw: bytes, key: str) -> Body:
        """Return the body with its items in the field `key`; raise ValueError if it is no JSON."""
        try:
            text = raw.decode()
            before = self._same_beginning(text)
            body = _parse(text, key, *(before or (None, 0)))
        except (ValueError, IndexError, RecursionError):
            return Body(wire.loads(raw))
        if before:
            self._bodies.remove(before[0])
            # Other transcripts cover items that are missing or different in this body.
            body.transcripts = [
                transcript
                for transcript in before[0].transcripts
                if 0 < transcript.stable_count <= body.reused_count
            ]
        if body.head:
            self._bodies.append(body)
            self._evict()
        return body

    def drop_large(self) -> None:
        """Forget the large bodies."""
        self._bodies = [body for body in self._bodies if len(body.head) <= LARGE_CHARACTERS]

    def _same_beginning(self, text: str) -> tuple[Body, int] | None:
        """Return an earlier body that `text` continues, and the number of items they share.

        Return None if there is none. Try first with all items, then without up to
        `CHANGEABLE_ITEMS` - 1 of the last ones.
        """
        for changed_items in range(CHANGEABLE_ITEMS):
            for body in reversed(self._bodies):
                count = len(body.ends) - changed_items
                if count > 0 and text.startswith(body.head[: body.ends[count - 1]]):
                    return body, count
        return None

    def _evict(self) -> None:
        characters = 0
        for number in range(len(self._bodies) - 1, -1, -1):
            characters += len(self._bodies[number].head)
            if characters > MAX_CHARACTERS or len(self._bodies) - number > REMEMBERED:
                del self._bodies[: number + 1]
                return


# In the functions below, `at` is a position in the text.


def _parse(text: str, key: str, before: Body | None = None, count: int = 0) -> Body:
    """Parse a body whose items are in the field `key`.

    If it begins with the first `count` items of the earlier body `before`, take those items from
    there and parse the rest. Raise ValueError if it is no JSON object, IndexError if it ends too
    early.
    """
    body = Body({})
    if before is None:
        at = _skip(text, 0, "{")
        more = text[at] != "}"
    else:
        body.fields, body.fields_before = dict(before.fields_before), before.fields_before
        body.reused_count, body.open = count, before.open
        at, more = _next(text, _read_items(text, before.ends[count - 1], key, body, before))
    while more:
        name, at = _value(text, at)
        at = _skip(text, at, ":")
        if name == key and text[at] == "[" and not body.head:
            body.fields_before = dict(body.fields)
            at = _read_items(text, at, key, body, None)
        else:
            if name == key:
                body.head, body.close = "", 0
            body.fields[name], at = _value(text, at)
        at, more = _next(text, at)
    if text[at] != "}" or _skip_space(text, at + 1) != len(text):
        raise ValueError("not one object")
    return body


def _read_items(text: str, at: int, key: str, body: Body, before: Body | None) -> int:
    """Read the items into `body`, and return the position after their list.

    Without `before`, `at` is the position of the list. Otherwise it is the end of the last item
    that is taken from `before`.
    """
    if before is None:
        items, starts, ends = [], [], []
        at = _skip(text, at, "[")
        body.open = at
        more = text[at] != "]"
    else:
        items, ends = before.items[: body.reused_count], before.ends[: body.reused_count]
        starts = before.starts[: body.reused_count]
        at, more = _next(text, at)
    while more:
        starts.append(at)
        item, at = _value(text, at)
        items.append(item)
        ends.append(at)
        at, more = _next(text, at)
    if text[at] != "]":
        raise ValueError("not a list")
    body.fields[key], body.items, body.starts, body.ends = items, items, starts, ends
    body.close = at
    body.head = text[: ends[-1]] if ends else ""
    return at + 1


def _next(text: str, at: int) -> tuple[int, bool]:
    """Return the next position after a value, and whether another value follows a comma there."""
    at = _skip_space(text, at)
    return (_skip_space(text, at + 1), True) if text[at] == "," else (at, False)


def _skip(text: str, at: int, mark: str) -> int:
    """Return the position after `mark` and white space; raise ValueError if `mark` is not next."""
    at = _skip_space(text, at)
    if text[at] != mark:
        raise ValueError(f"no {mark}")
    return _skip_space(text, at + 1)


def _skip_space(text: str, at: int) -> int:
    """Return the position after white space."""
    match = _SPACE.match(text, at)
    return match.end() if match else at
