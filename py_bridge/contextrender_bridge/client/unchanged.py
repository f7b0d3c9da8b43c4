"""Proof that a history begins as it did: that no value in it was put in another's place.

Text cannot change in Python, only what holds it: dicts and lists. The interpreter lists what they
hold (`gc.get_referents`), and two lists of the same objects are compared without a look at their
texts. Of a long history the newest are looked at in every call and the others by turns, so that a
call costs the same however much there is. A dict's keys are not listed: a key that gets another
name in place, its value and its order kept, goes unnoticed.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any, NamedTuple

BLOCK = 1024
"""Dicts and lists that are looked at together."""
BLOCKS = 4
"""So many of the newest blocks are looked at in each call, and as many of the others."""
ITEMS = 64
_LEAVES = frozenset({str, int, float, bool, type(None), bytes})
_HOLDERS = frozenset({dict, list, tuple})
_DEEPEST = 64


class Held(NamedTuple):
    """What some items hold, at any depth: the holders, and what these hold in turn."""

    holders: list[Any]
    values: list[Any]

    def is_as_it_was(self) -> bool:
        """Whether they hold the same objects now."""
        return gc.get_referents(*self.holders) == self.values


def held_by(items: Sequence[Any]) -> list[Held] | None:
    """By a few items each; None where they hold anything but plain values."""
    found = [_held_by(items[at : at + ITEMS]) for at in range(0, len(items), ITEMS)]
    return None if None in found else [held for held in found if held is not None]


def _held_by(items: Sequence[Any]) -> Held | None:
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
        self._blocks: list[Held] = []
        self._turn = 0
        self.characters = 0

    def __len__(self) -> int:
        return len(self._items)

    def begins(self, items: Sequence[Any]) -> bool:
        """Whether `items` begin with those it has, and what it looks at is as it was."""
        if items[: len(self._items)] != self._items:
            return False
        older = self._blocks[:-BLOCKS]
        if self._turn >= len(older):
            self._turn = 0
        looked = [*self._blocks[-BLOCKS:], *older[self._turn : self._turn + BLOCKS]]
        self._turn += BLOCKS
        return all(block.is_as_it_was() for block in looked)

    def add(self, items: Sequence[Any], held: Sequence[Held]) -> None:
        """More items, and what they hold."""
        self._items.extend(items)
        for more in held:
            if not self._blocks or len(self._blocks[-1].holders) >= BLOCK:
                self._blocks.append(Held([], []))
            self._blocks[-1].holders.extend(more.holders)
            self._blocks[-1].values.extend(more.values)
            self.characters += sum(len(value) for value in more.values if type(value) is str)
