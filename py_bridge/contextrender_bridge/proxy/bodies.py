"""Incremental parsing of request bodies: only the new part of a body is parsed.

An agent sends its whole history with each request. If a body begins with the same text as an
earlier one, up to the end of an item, the parsed items of the earlier body are reused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects import Dialect, Transcript
from contextrender_bridge.proxy.json_text import read_value, skip, skip_comma, skip_space

REMEMBERED = 64
MAX_CHARACTERS = 64 * 2**20
CHANGEABLE_ITEMS = 6
"""The number of last items that the next request may change, because cache marks move."""
TRANSCRIPTS = 3
LARGE_CHARACTERS = 16 * 2**20
"""A body with more characters is dropped during a pause; its next request is parsed in full."""


@dataclass
class Body:
    """A parsed request body: its `fields`, and the `items` (messages) in one of them.

    - `prefix`: the text up to the end of the last item. A later body that continues this one begins
      with this text. If `prefix` is empty, no later body can continue this one.
    - `fields_before`: the fields that come before the items in the text.
    - `reused_count`: the number of first items that were taken from an earlier body.
    - `starts`, `ends`: the positions in the text where each item begins and ends.
    - `transcripts`: the transcripts of earlier bodies that this body continues, then its own.
    - `list_start`, `list_end`: the positions in the text after the opening and before the closing
      bracket of the list of items; 0 if they are unknown.
    """

    fields: Json
    prefix: str = field(default="", repr=False)
    fields_before: Mapping[str, Any] = field(default_factory=dict, repr=False)
    items: list[Any] = field(default_factory=list, repr=False)
    starts: list[int] = field(default_factory=list, repr=False)
    ends: list[int] = field(default_factory=list, repr=False)
    list_start: int = 0
    list_end: int = 0
    reused_count: int = 0
    transcripts: list[Transcript] = field(default_factory=list, repr=False)

    def read(self, reader: Dialect) -> Transcript:
        """Return the request's transcript, continued from an earlier body's if possible.

        Also keep it in `transcripts`, for later bodies.
        """
        transcript = reader.read(self.fields, self.transcripts[-1] if self.transcripts else None)
        self.transcripts = [*self.transcripts, transcript][-TRANSCRIPTS:]
        return transcript


class RecentBodies:
    """A cache with the last request body of each of the most recent histories."""

    def __init__(self) -> None:
        """Remember no body yet."""
        self._bodies: list[Body] = []

    def read(self, raw: bytes, key: str) -> Body:
        """Parse a body, and reuse the items that it shares with an earlier body in the cache.

        In the cache, the new body replaces the earlier one. `key` is the field with the items.
        Raise ValueError if `raw` is no JSON object in UTF-8, or has a number that cannot be written
        again, such as `NaN`.
        """
        try:
            text = raw.decode()
            earlier, shared_count = self._find_earlier(text)
            body = _parse(text, key, earlier, shared_count)
        except (IndexError, RecursionError):
            raise ValueError("the text ends too early, or is nested too deeply") from None
        if earlier:
            self._bodies.remove(earlier)
            # A transcript does not read its first `stable_count` items again. So this body can
            # continue it only if it reused all of these items; others may differ.
            body.transcripts = [
                transcript
                for transcript in earlier.transcripts
                if 0 < transcript.stable_count <= body.reused_count
            ]
        if body.prefix:  # Otherwise no later body can continue this one.
            self._bodies.append(body)
            self._evict()
        return body

    def drop_large(self) -> None:
        """Remove the bodies whose `prefix` has more than `LARGE_CHARACTERS` from the cache."""
        self._bodies = [body for body in self._bodies if len(body.prefix) <= LARGE_CHARACTERS]

    def _find_earlier(self, text: str) -> tuple[Body | None, int]:
        """Return an earlier body that `text` continues, and the number of first items they share.

        First look for a body of which `text` has all items. Then let the last item differ, then the
        last two, up to `CHANGEABLE_ITEMS` - 1. Return (None, 0) if there is no such body.
        """
        for changed_items in range(CHANGEABLE_ITEMS):
            for body in reversed(self._bodies):
                shared_count = len(body.ends) - changed_items
                if shared_count > 0 and text.startswith(body.prefix[: body.ends[shared_count - 1]]):
                    return body, shared_count
        return None, 0

    def _evict(self) -> None:
        """Remove the oldest bodies, so that at most `REMEMBERED` and `MAX_CHARACTERS` remain."""
        kept_count = characters = 0
        for body in reversed(self._bodies):
            characters += len(body.prefix)
            if characters > MAX_CHARACTERS or kept_count == REMEMBERED:
                break
            kept_count += 1
        del self._bodies[: len(self._bodies) - kept_count]


# In the functions below, `at` is a position in the text.


def _parse(text: str, key: str, earlier: Body | None, shared_count: int) -> Body:
    """Parse a body whose items are in the field `key`.

    If `earlier` is given, the text begins with that body's text up to its item `shared_count`. Then
    take those items from it, and parse only the remaining text. Raise ValueError if the text is no
    JSON object, and IndexError if it ends too early.
    """
    body = Body({})
    # `at` is the position in the text. Begin at the first field, or after the list of items, whose
    # first items come from the earlier body.
    if earlier is None:
        at = skip(text, 0, "{")
        has_field = text[at] != "}"
    else:
        at, has_field = skip_comma(text, _continue_items(text, key, body, earlier, shared_count))
    while has_field:
        name, at = read_value(text, at)
        at = skip(text, at, ":")
        has_items = bool(body.prefix)  # the text up to the last item; empty before the first
        if name == key and text[at] == "[" and not has_items:
            # Read the items one by one, to keep their positions. This also sets `body.prefix`.
            body.fields_before = dict(body.fields)
            at = _read_items(text, at, key, body)
        else:
            if name == key:
                # The field is no list, or comes a second time. JSON's last value counts, so forget
                # the positions of items that were read before. No later body continues this one.
                body.prefix, body.list_end = "", 0
            body.fields[name], at = read_value(text, at)
        at, has_field = skip_comma(text, at)
    if text[at] != "}" or skip_space(text, at + 1) != len(text):
        raise ValueError("not one object")
    return body


def _read_items(text: str, at: int, key: str, body: Body) -> int:
    """Read the list of items at `at` into `body`, and return the position after the list."""
    at = skip(text, at, "[")
    body.list_start = at
    body.items, body.starts, body.ends = [], [], []
    return _read_remaining_items(text, at, text[at] != "]", key, body)


def _continue_items(text: str, key: str, body: Body, earlier: Body, count: int) -> int:
    """Copy the fields before the items, and the first `count` items, from `earlier` to `body`.

    Then read the other items from the text, and return the position after the list of items.
    """
    body.fields, body.fields_before = dict(earlier.fields_before), earlier.fields_before
    body.reused_count, body.list_start = count, earlier.list_start
    body.items, body.starts = earlier.items[:count], earlier.starts[:count]
    body.ends = earlier.ends[:count]
    at, has_item = skip_comma(text, body.ends[-1])
    return _read_remaining_items(text, at, has_item, key, body)


def _read_remaining_items(text: str, at: int, has_item: bool, key: str, body: Body) -> int:
    """Read the items from `at` to the end of the list; return the position after the list.

    Add them to the body's items, and set its field `key`, `list_end` and `prefix`. `has_item` is
    false if no item begins at `at`.
    """
    items, starts, ends = body.items, body.starts, body.ends
    while has_item:
        starts.append(at)
        item, at = read_value(text, at)
        items.append(item)
        ends.append(at)
        at, has_item = skip_comma(text, at)
    if text[at] != "]":
        raise ValueError("not a list")
    body.fields[key], body.list_end = items, at
    body.prefix = text[: ends[-1]] if ends else ""
    return at + 1
