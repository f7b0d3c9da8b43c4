"""The history that the server has of each session, so that a client sends only new messages.

Texts cannot change in Python; only the dicts and lists that contain them can. `gc.get_referents`
lists their contents, and two lists of the same objects are compared without reading texts. A call
compares the newest objects and a part of the older ones, so its cost does not grow with the
history. Dict keys are not listed: a key that is renamed in place, in the same order, goes
unnoticed. Long because comparing objects and remembering histories share the same lists.
"""

from __future__ import annotations

import gc
import hashlib
import json
import marshal
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from contextrender_bridge.dialects.base import Transcript

Message = Mapping[str, Any]
Key = tuple["str | None", str, str]
"""A user's token (None for the client's own), a session, and the name of one of its histories."""

REMEMBERED = 1024
MOST_CHARACTERS = 64 * 2**20
"""The limit of the texts that are kept in memory, to see that they are unchanged.

Older histories have only fingerprints, and are read completely.
"""

BLOCK = 1024
"""Dicts and lists that are compared together."""
BLOCKS = 4
"""The number of newest blocks that each call compares; it compares as many of the others."""
ITEMS = 64
_LEAVES = frozenset({str, int, float, bool, type(None), bytes})
_HOLDERS = frozenset({dict, list, tuple})
_DEEPEST = 64


class ContainerTree(NamedTuple):
    """The containers among some items, at any depth (`holders`), and their contents (`values`)."""

    holders: list[Any]
    values: list[Any]

    def is_unchanged(self) -> bool:
        """Return whether the containers still have the same contents."""
        return gc.get_referents(*self.holders) == self.values


def container_trees(items: Sequence[Any]) -> list[ContainerTree] | None:
    """Return a tree for every few items; None if they contain anything but plain values."""
    trees = [_container_tree(items[at : at + ITEMS]) for at in range(0, len(items), ITEMS)]
    return None if None in trees else [tree for tree in trees if tree is not None]


def _container_tree(items: Sequence[Any]) -> ContainerTree | None:
    tree = ContainerTree([], [])
    level = [item for item in items if type(item) not in _LEAVES]
    for _ in range(_DEEPEST):
        if not level:
            return tree
        if not _HOLDERS.issuperset(map(type, level)):
            return None
        values = gc.get_referents(*level)
        tree.holders.extend(level)
        tree.values.extend(values)
        level = [value for value in values if type(value) not in _LEAVES]
    return None


class Unchanged:
    """The first items of a history, unchanged. It keeps them, and so their texts, in memory."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._blocks: list[ContainerTree] = []
        self._turn = 0
        self.characters = 0

    def __len__(self) -> int:
        return len(self._items)

    def begins(self, items: Sequence[Any]) -> bool:
        """Return whether `items` begin with these, and the compared blocks are unchanged."""
        if items[: len(self._items)] != self._items:
            return False
        older_blocks = self._blocks[:-BLOCKS]
        if self._turn >= len(older_blocks):
            self._turn = 0
        compared = [*self._blocks[-BLOCKS:], *older_blocks[self._turn : self._turn + BLOCKS]]
        self._turn += BLOCKS
        return all(block.is_unchanged() for block in compared)

    def add(self, items: Sequence[Any], trees: Sequence[ContainerTree]) -> None:
        """Add more items with their containers."""
        self._items.extend(items)
        for tree in trees:
            if not self._blocks or len(self._blocks[-1].holders) >= BLOCK:
                self._blocks.append(ContainerTree([], []))
            self._blocks[-1].holders.extend(tree.holders)
            self._blocks[-1].values.extend(tree.values)
            self.characters += sum(len(value) for value in tree.values if type(value) is str)


class Fingerprint:
    """A hash of messages that can be extended with later ones."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self._hash = hashlib.sha256(b"".join(map(_shape, messages)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprint) and self._hash.digest() == other._hash.digest()

    __hash__ = None  # type: ignore[assignment]

    def extended(self, messages: Sequence[Message]) -> Fingerprint:
        """Return the fingerprint of these messages and more."""
        longer = Fingerprint()
        longer._hash = self._hash.copy()
        longer._hash.update(b"".join(map(_shape, messages)))
        return longer


@dataclass(frozen=True)
class RecordedPrefix:
    """The recorded part of a history: its first `messages`, and the service's digest of them."""

    messages: int = 0
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    digest: str = ""


@dataclass(frozen=True)
class Past:
    """The part of a history that was read before: its number of items, and their transcript."""

    prefix: RecordedPrefix
    unchanged: Unchanged = field(default_factory=Unchanged)
    items: int = 0
    transcript: Transcript | None = None


@dataclass(frozen=True)
class HistorySnapshot:
    """A history at the time of a call: its recorded part, and all of it."""

    prefix: RecordedPrefix
    fingerprint: Fingerprint
    items: Sequence[Any] = ()
    trees: list[ContainerTree] | None = None
    past: Past | None = None


class HistoryCache:
    """The most recently used histories; safe between threads."""

    def __init__(self) -> None:
        """Keep at most `REMEMBERED` histories, and evict the least recently used."""
        self._pasts: OrderedDict[Key, Past] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def past(self, key: Key, items: Sequence[Any]) -> Past | None:
        """Return what was read of a history before, if `items` begin with that."""
        with self._lock:
            past = self._pasts.get(key)
            if past is None or not past.items or past.items != len(past.unchanged):
                return None
            return past if past.unchanged.begins(items) else None

    def snapshot(
        self,
        key: Key,
        messages: Sequence[Message],
        items: Sequence[Any],
        past: Past | None,
    ) -> HistorySnapshot:
        """Return a snapshot of a history.

        Nothing of it counts as recorded if it differs from the recorded one. `messages` were read
        from `items`, which do not change any more. `past` is what was read of them before.
        """
        if past is not None:
            prefix = past.prefix
            fingerprint = prefix.fingerprint.extended(messages[prefix.messages :])
            return HistorySnapshot(
                prefix, fingerprint, items, container_trees(items[past.items :]), past
            )
        with self._lock:
            cached = self._pasts.get(key)
        prefix = (
            cached.prefix
            if cached and cached.prefix.messages <= len(messages)
            else RecordedPrefix()
        )
        prefix_fingerprint = Fingerprint(messages[: prefix.messages])
        fingerprint = prefix_fingerprint.extended(messages[prefix.messages :])
        return HistorySnapshot(
            prefix if prefix_fingerprint == prefix.fingerprint else RecordedPrefix(),
            fingerprint,
            items,
            container_trees(items),
        )

    def remember(
        self,
        key: Key,
        snapshot: HistorySnapshot,
        prefix: RecordedPrefix,
        transcript: Transcript | None = None,
    ) -> None:
        """Store that a call recorded this prefix of a history."""
        with self._lock:
            self._drop(key)
            past = self._pasts[key] = self._next_past(snapshot, prefix, transcript)
            self._characters += past.unchanged.characters
            while len(self._pasts) > REMEMBERED:
                self._drop(next(iter(self._pasts)))
            if self._characters > MOST_CHARACTERS:
                self._forget_texts()

    def forget(self, key: Key) -> None:
        """Remove a history."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: Key) -> None:
        past = self._pasts.pop(key, None)
        self._characters -= past.unchanged.characters if past else 0

    @staticmethod
    def _next_past(
        snapshot: HistorySnapshot, prefix: RecordedPrefix, transcript: Transcript | None
    ) -> Past:
        past = snapshot.past
        # Another call of the same history may have extended it in the meantime.
        unchanged, start = (past.unchanged, past.items) if past else (Unchanged(), 0)
        if snapshot.trees is None or start != len(unchanged) or start > len(snapshot.items):
            return Past(prefix)
        unchanged.add(snapshot.items[start:], snapshot.trees)
        return Past(prefix, unchanged, len(snapshot.items), transcript)

    def _forget_texts(self) -> None:
        for key, past in self._pasts.items():
            if self._characters <= MOST_CHARACTERS:
                return
            self._characters -= past.unchanged.characters
            self._pasts[key] = Past(past.prefix)


def _shape(message: Any) -> bytes:
    try:
        # Version 2 has no references between objects, so equal values give equal bytes.
        return marshal.dumps(message, 2)
    except ValueError:
        return json.dumps(message, default=_plain).encode()


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else repr(value)
