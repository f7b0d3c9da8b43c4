"""Request bodies: only the new part of a body is parsed, and a changed body keeps its other bytes.

An agent sends its whole history with each request. If a body begins with the same text as an
earlier one, up to the end of an item, the parsed items of the earlier body are reused. A shortened
copy of a body is encoded with the original text of its unchanged values. Long because both need
the positions of values in a body's text. In all functions, `at` is such a position. Functions that
read the character there raise IndexError if the text ends too early.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

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
ITEM_DEPTH = 3
"""The levels of an item that may be in a merged item: the item, its content, and a block."""
CHANGED_DEPTH = 8
"""The levels of a changed item that may have unchanged values."""

_SPACE = r"[ \t\n\r]*"
_MARKS = {mark: re.compile(_SPACE + re.escape(mark) + _SPACE) for mark in "{[:"}
_COMMA = re.compile(rf"{_SPACE}(,?){_SPACE}")


@dataclass
class Body:
    """A parsed request body: its `fields`, and the `items` (messages) in the field `key`.

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
    key: str
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

    def splice(self, raw: bytes, shortened: Mapping[str, Any]) -> bytes:
        """Encode a shortened copy of this body, with the original bytes of its unchanged values.

        `raw` has the bytes of this body. If the positions of its items are unknown, encode the
        whole copy.
        """
        items = shortened.get(self.key)
        if self.list_end <= 0 or not isinstance(items, list):
            return wire.dumps(shortened)
        copied_ids = set(map(id, items))
        omitted_items = [item for item in self.items if id(item) not in copied_ids]
        spans = zip(self.starts, self.ends, strict=True)
        item_spans = {
            id(item): span
            for item, span in zip(self.items, spans, strict=True)
            if isinstance(item, (dict, list))
        }
        text = raw.decode()
        pieces = map(_CopyEncoder(text, item_spans, omitted_items).encode, items)
        # Outside the list of items, the copy is equal to this body.
        new_text = f"{text[: self.list_start]}{','.join(pieces)}{text[self.list_end :]}"
        # A lone surrogate, which UTF-8 cannot encode, becomes its JSON escape sequence.
        return new_text.encode(errors="backslashreplace")


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


def _parse(text: str, key: str, earlier: Body | None, shared_count: int) -> Body:
    """Parse a body whose items are in the field `key`.

    If `earlier` is given, the text begins with that body's text up to its item `shared_count`. Then
    take those items from it, and parse only the remaining text. Raise ValueError if the text is no
    JSON object, and IndexError if it ends too early.
    """
    body = Body({}, key)
    if earlier is None:
        at = skip(text, 0, "{")
        has_field = text[at] != "}"
    else:
        # Begin after the items that both bodies share.
        body.fields, body.fields_before = dict(earlier.fields_before), earlier.fields_before
        body.reused_count, body.list_start = shared_count, earlier.list_start
        body.items, body.starts = earlier.items[:shared_count], earlier.starts[:shared_count]
        body.ends = earlier.ends[:shared_count]
        at = _read_items(text, *skip_comma(text, body.ends[-1]), body)
        at, has_field = skip_comma(text, at)
    while has_field:
        name, at = read_value(text, at)
        at = skip(text, at, ":")
        has_items = bool(body.prefix)  # the text up to the last item; empty before the first
        if name == key and text[at] == "[" and not has_items:
            # Read the items one by one, to keep their positions. This also sets `body.prefix`.
            body.fields_before = dict(body.fields)
            body.items, body.starts, body.ends = [], [], []
            body.list_start = at = skip(text, at, "[")
            at = _read_items(text, at, text[at] != "]", body)
        else:
            if name == key:
                # The field is no list, or comes a second time. JSON's last value counts, so forget
                # the positions of items that were read before. No later body continues this one.
                body.prefix, body.list_end = "", 0
            body.fields[name], at = read_value(text, at)
        at, has_field = skip_comma(text, at)
    if text[at] != "}" or text[at + 1 :].strip(" \t\n\r"):
        raise ValueError("not one object")
    return body


def _read_items(text: str, at: int, has_item: bool, body: Body) -> int:
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
    body.fields[body.key], body.list_end = items, at
    body.prefix = text[: ends[-1]] if ends else ""
    return at + 1


class _CopyEncoder:
    """An encoder of items of a shortened copy, with the texts of the original values.

    A changed item is a copy of an omitted one, or is merged from several. Each value that it shares
    with them is the same object, so `id` finds its text.
    """

    def __init__(
        self, text: str, spans: dict[int, tuple[int, int]], omitted_items: list[Any]
    ) -> None:
        """Begin with the `spans` of all items in the body's `text`.

        A span has the positions where a value begins and ends. `spans` maps the id of a value to
        its span.
        """
        self._text, self._spans, self._omitted_items = text, spans, omitted_items
        self._levels_to_add = [1, ITEM_DEPTH]
        # By the id of a value in an item: the object or list that contains it.
        self._parents: dict[int, Json | list[Any]] = {}

    def encode(self, value: Any, depth: int = CHANGED_DEPTH) -> str:
        """Return the text of a value: its original one if it is unchanged.

        Consider at most `depth` levels of the value.
        """
        if span := self._find_span(value):
            return self._text[slice(*span)]
        if depth and isinstance(value, list):
            return f"[{','.join(self.encode(element, depth - 1) for element in value)}]"
        if depth and isinstance(value, dict):
            original = self._find_original(value)
            if original is not None:
                return self._encode_copy(value, original, depth - 1)
            if self._levels_to_add:
                # The value may be a copy of an item, or a block of an item that was merged.
                levels = self._levels_to_add.pop(0)
                for item in self._omitted_items:
                    self._add_values(item, levels)
                return self.encode(value, depth)
            return f"{{{','.join(self._encode_members(value, value, depth - 1))}}}"
        return write_value(value)

    def _encode_copy(self, value: Json, original: Json, depth: int) -> str:
        """Return the text of a changed copy of `original`, an object of the request.

        Keep the text of all unchanged members, even if names are repeated. Changed members stay at
        the place of the last member with their name, and new ones come last.
        """
        if any(isinstance(member, (dict, list)) for member in value.values()):
            self._add_values(original, depth)  # These may be copies of the original's members.
        span = self._find_span(original)
        assert span
        start, end = span
        members = read_members(self._text, start)
        last_members = {member.name: member for member in members}
        at, own_members = start + 1, ""
        for member in members:
            name, separator = member.name, self._text[at : member.start]
            at = member.end
            if name not in value:
                continue
            if _is_unchanged(value[name], original[name]):
                text = self._text[member.start : at]
            elif member is last_members[name]:
                new_value = self.encode(value[name], depth)
                text = f"{self._text[member.start : member.value_start]}{new_value}"
            else:
                continue
            own_members += f"{separator if own_members else separator.replace(',', '')}{text}"
        new_names = [name for name in value if name not in original]
        new_members = ",".join(self._encode_members(value, new_names, depth))
        comma = "," if own_members and new_members else ""
        return f"{{{own_members}{comma}{new_members}{self._text[at:end]}"

    def _encode_members(self, value: Json, names: Iterable[str], depth: int) -> list[str]:
        """Return the texts of the members of an object that have these names."""
        return [f"{write_value(name)}:{self.encode(value[name], depth)}" for name in names]

    def _find_original(self, value: Json) -> Json | None:
        """Return the object that `value` is a copy of: the one that shares the most members."""
        candidates = (self._parents.get(id(member)) for member in value.values())
        originals = {id(parent): parent for parent in candidates if isinstance(parent, dict)}
        if len(originals) == 1:
            return originals.popitem()[1]
        return max(
            originals.values(), key=lambda original: _count_shared(original, value), default=None
        )

    def _find_span(self, value: Any) -> tuple[int, int] | None:
        """Return the positions where an unchanged value begins and ends, None for any other."""
        if id(value) in self._spans or id(value) not in self._parents:
            return self._spans.get(id(value))
        # Read the text of the object or list that contains the value.
        parent = self._parents[id(value)]
        span = self._find_span(parent)
        assert span
        for number, member in enumerate(read_members(self._text, span[0])):
            child = parent[member.name] if isinstance(parent, dict) else parent[number]
            # If a name is repeated, the last value counts.
            self._spans[id(child)] = member.value_start, member.end
        return self._spans[id(value)]

    def _add_values(self, value: Any, depth: int) -> None:
        """Set the parents of the values in an object or list, and in `depth` levels of these."""
        if not isinstance(value, (dict, list)):
            return
        for child in value.values() if isinstance(value, dict) else value:
            # Python may use one object for equal values of other types and for short strings.
            is_container = isinstance(child, (dict, list))
            if is_container or isinstance(child, float) or (isinstance(child, str) and child[1:]):
                self._parents[id(child)] = value
                if is_container and depth > 1:
                    self._add_values(child, depth - 1)


def _count_shared(original: Json, copy: Json) -> int:
    """Return the number of members that both objects share."""
    return sum(name in original and original[name] is copy[name] for name in copy)


def _is_unchanged(value: Any, original: Any) -> bool:
    """Return whether a copy's member is the original one, or consists of the same values."""
    if value is original:
        return True
    if isinstance(value, str):
        return bool(value == original)
    if isinstance(value, list) and isinstance(original, list):
        return len(value) == len(original) and all(map(_is_unchanged, value, original))
    if isinstance(value, dict) and isinstance(original, dict):
        return value.keys() == original.keys() and all(
            _is_unchanged(value[name], original[name]) for name in value
        )
    return False


def _read_number(text: str) -> float:
    """Return a number with a fraction or an exponent. Raise ValueError if it is no finite one."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"no JSON has {number}")
    return number


read_value = json.JSONDecoder(parse_float=_read_number, parse_constant=_read_number).raw_decode
"""Return the JSON value at a position of a text, and the position after it."""
write_value = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Return a value as compact JSON, in which lone surrogates are not escaped."""


class Member(NamedTuple):
    """A value in the text of an object or a list, from `value_start` to `end`.

    `start` is the position of its `name`. In a list, the name is empty, and `start` is
    `value_start`.
    """

    name: str
    start: int
    value_start: int
    end: int


def read_members(text: str, at: int) -> list[Member]:
    """Return the members of the valid object or list at `at`, in the order of the text."""
    members: list[Member] = []
    closing_mark = {"{": "}", "[": "]"}[text[at]]
    at = skip(text, at, text[at])
    has_member = text[at] != closing_mark
    while has_member:
        start, name = at, ""
        if closing_mark == "}":
            name, at = read_value(text, at)
            at = skip(text, at, ":")
        _, end = read_value(text, at)
        members.append(Member(name, start, at, end))
        at, has_member = skip_comma(text, end)
    return members


def skip_comma(text: str, at: int) -> tuple[int, bool]:
    """Skip white space and a comma. Return the next position, and whether there was a comma."""
    match = _COMMA.match(text, at)
    assert match  # The pattern also matches an empty text.
    return match.end(), match[1] != ""


def skip(text: str, at: int, mark: str) -> int:
    """Return the position after `mark` and white space; raise ValueError if `mark` is not next."""
    match = _MARKS[mark].match(text, at)
    if match is None:
        raise ValueError(f"no {mark}")
    return match.end()
