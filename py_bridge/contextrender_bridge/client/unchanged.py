"""Proof that a history begins as it did: that no value in it was put in another's place.

Text cannot change in Python, only what holds it: dicts and lists. The interpreter lists what they
hold (`gc.get_referents`), and two lists of the same objects are compared without a look at their
texts: 25,000 dicts and lists in less than a millisecond. It does not list a dict's keys, so a key
that gets another name in place, its value and its order kept, goes unnoticed.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any, NamedTuple

_LEAVES = frozenset({str, int, float, bool, type(None), bytes})
_HOLDERS = frozenset({dict, list, tuple})
_DEEPEST = 64


class Held(NamedTuple):
    """What some items hold, at any depth: the holders, and what these hold in turn."""

    holders: list[Any]
    values: list[Any]


def held_by(items: Sequence[Any]) -> Held | None:
    """None where they hold anything but plain values."""
    found = Held([], [])
    level = [item for item in items if type(item) not in _LEAVES]
    for _ in range(_DEEPEST):
        if not level:
            return found
        if not _HOLDERS.issuperset(map(type, level)):
            return None
        values = gc.get_referents(*level)
        found.holders.extend(level)
        found.values.extend(values)
        level = [value for value in values if type(value) not in _LEAVES]
    return None


class Unchanged:
    """The first items of a history, as they were; it keeps them, and so their texts, alive."""

    def __init__(self) -> None:
        """Of none."""
        self._items: list[Any] = []
        self._held = Held([], [])
        self.characters = 0

    def __len__(self) -> int:
        return len(self._items)

    def begins(self, items: Sequence[Any]) -> bool:
        """Whether `items` begin with those it has, and these are as they were."""
        if items[: len(self._items)] != self._items:
            return False
        return gc.get_referents(*self._held.holders) == self._held.values

    def add(self, items: Sequence[Any], held: Held) -> None:
        """More items, and what they hold."""
        self._items.extend(items)
        self._held.holders.extend(held.holders)
        self._held.values.extend(held.values)
        self.characters += sum(len(value) for value in held.values if type(value) is str)
