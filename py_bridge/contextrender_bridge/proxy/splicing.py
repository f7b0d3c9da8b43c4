"""The encoding of a shortened request, which reuses the original bytes of unchanged values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.wire import Json
from contextrender_bridge.proxy.bodies import Body
from contextrender_bridge.proxy.json_text import read_members

ITEM_DEPTH = 3
"""The levels of an item that may be in a merged item: the item, its content, and a block."""
CHANGED_DEPTH = 8
"""The levels of a changed item that may have unchanged values."""


def splice(raw: bytes, read: Body, key: str, shortened: Mapping[str, Any]) -> bytes:
    """Encode a shortened copy of a request, with the original bytes of its unchanged values.

    `raw` is the request and `read` the same, parsed. `key` is the field with the items. If the
    positions of the items in `raw` are unknown, encode the whole copy.
    """
    if read.list_end <= 0 or not isinstance(shortened.get(key), list):
        return wire.dumps(shortened)
    text = raw.decode()
    # An unchanged item of the copy is the same object as in `read`, so `id` finds its number.
    numbers = {id(item): n for n, item in enumerate(read.items) if isinstance(item, (dict, list))}
    items, changed_items = shortened[key], _ChangedItems(text)
    if any(id(item) not in numbers for item in items):
        # A changed item has unchanged values of items that are no longer in the list.
        omitted_ids = numbers.keys() - set(map(id, items))
        for n in sorted(numbers[id_] for id_ in omitted_ids):
            changed_items.add_item(read.items[n], read.starts[n], read.ends[n])
    pieces = []
    for item in items:
        number = numbers.get(id(item))
        if number is None:
            pieces.append(changed_items.encode(item))
        else:
            pieces.append(text[read.starts[number] : read.ends[number]])
    # Outside the list of items, the copy is equal to the request.
    return f"{text[: read.list_start]}{','.join(pieces)}{text[read.list_end :]}".encode()


class _ChangedItems:
    """The texts of changed items, made from the texts of the request's own items.

    A changed item is a copy of an item. Each value that the copy shares with the item is the same
    object, so `id` finds its text.
    """

    def __init__(self, text: str) -> None:
        """Begin without items. `text` is the request."""
        self._text = text
        self._items: list[Any] = []
        # Whether `_parents` has only the members of the items and of the originals of copies.
        self._is_shallow = True
        # By the id of a value in an item: the object or list that contains it.
        self._parents: dict[int, Json | list[Any]] = {}
        # By the id of a value: the positions in the text where it begins and ends.
        self._spans: dict[int, tuple[int, int]] = {}

    def add_item(self, item: Any, start: int, end: int) -> None:
        """Add an item of the request, whose text is from `start` to `end`."""
        self._spans[id(item)] = start, end
        self._items.append(item)
        self._add_values(item, 1)

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
            if self._is_shallow:
                # The value may be a block of an item that was merged with another one.
                self._is_shallow = False
                for item in self._items:
                    self._add_values(item, ITEM_DEPTH)
                return self.encode(value, depth)
            return f"{{{','.join(self._encode_members(value, value, depth - 1))}}}"
        return wire.dumps(value).decode()

    def _encode_copy(self, value: Json, original: Json, depth: int) -> str:
        """Return the text of a changed copy of `original`, an object of the request.

        Keep the text of all unchanged members, even if names are repeated. Changed members stay at
        the place of the last member with their name, and new ones come last.
        """
        self._add_values(original, depth)
        span = self._find_span(original)
        assert span
        start, end = span
        members = list(read_members(self._text, start))
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
        return [f"{wire.dumps(name).decode()}:{self.encode(value[name], depth)}" for name in names]

    def _find_original(self, value: Json) -> Json | None:
        """Return the object that `value` is a copy of: the one that shares the most members."""
        candidates = (self._parents.get(id(member)) for member in value.values())
        originals = [candidate for candidate in candidates if isinstance(candidate, dict)]
        return max(originals, key=lambda one: _count_shared(one, value), default=None)

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
        if not depth or not isinstance(value, (dict, list)):
            return
        for child in value.values() if isinstance(value, dict) else value:
            # Python may use one object for equal values of other types and for short strings.
            is_text = isinstance(child, str) and len(child) > 1
            if is_text or isinstance(child, (dict, list, float)):
                self._parents[id(child)] = value
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
