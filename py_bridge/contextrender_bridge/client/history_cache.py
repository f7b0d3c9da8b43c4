"""The history that the server already has of each session, so a client sends only new messages.

Text cannot change in Python; only the dicts and lists that hold it can. `gc.get_referents` lists
what they hold, and two lists of the same objects are compared without reading their texts. A call
compares the newest objects and takes turns on the older ones, so its cost does not grow with the
history. Dict keys are not listed: a key renamed in place, in the same order, goes unnoticed.
Long because comparing objects and remembering what was sent share the same lists.
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
"""A user's token where it is not the client's own, a session, and which of its histories."""

REMEMBERED = 1024
MOST_CHARACTERS = 64 * 2**20
"""Of texts that are kept alive to see that they are unchanged; of older histories there are only
fingerprints, and all of them is read again."""

BLOCK = 1024
"""Dicts and lists that are looked at together."""
BLOCKS = 4
"""So many of the newest blocks are looked at in each call, and as many of the others."""
ITEMS = 64
_LEAVES = frozenset({str, int, float, bool, type(None), bytes})
_HOLDERS = frozenset({dict, list, tuple})
_DEEPEST = 64


class ContainerTree(NamedTuple):
    """What some items hold, at any depth: the holders, and what these hold in turn."""

    holders: list[Any]
    values: list[Any]

    def is_as_it_was(self) -> bool:
        """Whether they hold the same objects now."""
        return gc.get_referents(*self.holders) == self.values


def held_by(items: Sequence[Any]) -> list[ContainerTree] | None:
    """By a few items each; None where they hold anything but plain values."""
    found = [_held_by(items[at : at + ITEMS]) for at in range(0, len(items), ITEMS)]
    return None if None in found else [held for held in found if held is not None]


def _held_by(items: Sequence[Any]) -> ContainerTree | None:
    found = ContainerTree([], [])
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
        self._items: list[Any] = []
        self._blocks: list[ContainerTree] = []
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

    def add(self, items: Sequence[Any], held: Sequence[ContainerTree]) -> None:
        """More items, and what they hold."""
        self._items.extend(items)
        for more in held:
            if not self._blocks or len(self._blocks[-1].holders) >= BLOCK:
                self._blocks.append(ContainerTree([], []))
            self._blocks[-1].holders.extend(more.holders)
            self._blocks[-1].values.extend(more.values)
            self.characters += sum(len(value) for value in more.values if type(value) is str)


class Fingerprint:
    """A hash of messages, which goes on with those that follow."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self._hash = hashlib.sha256(b"".join(map(_shape, messages)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprint) and self._hash.digest() == other._hash.digest()

    __hash__ = None  # type: ignore[assignment]

    def followed_by(self, messages: Sequence[Message]) -> Fingerprint:
        """That of the messages it is of, and these."""
        longer = Fingerprint()
        longer._hash = self._hash.copy()
        longer._hash.update(b"".join(map(_shape, messages)))
        return longer


@dataclass(frozen=True)
class RecordedPrefix:
    """The first `messages` of a history are recorded; `digest` is the service's for them."""

    messages: int = 0
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    digest: str = ""


@dataclass(frozen=True)
class Past:
    """What was read of a history: so many items as the caller has them, and their transcript."""

    known: RecordedPrefix
    unchanged: Unchanged = field(default_factory=Unchanged)
    items: int = 0
    transcript: Transcript | None = None


@dataclass(frozen=True)
class HistorySnapshot:
    """A history as a call finds it: the part that is recorded, and all of it."""

    known: RecordedPrefix
    fingerprint: Fingerprint
    items: Sequence[Any] = ()
    held: list[ContainerTree] | None = None
    past: Past | None = None


class HistoryCache:
    """The histories used last; safe between threads."""

    def __init__(self) -> None:
        """Forgets the least recently used of more than `REMEMBERED` histories."""
        self._pasts: OrderedDict[Key, Past] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def past(self, key: Key, items: Sequence[Any]) -> Past | None:
        """What was read of a history that now is `items`, where that is how they begin."""
        with self._lock:
            past = self._pasts.get(key)
            if past is None or not past.items or past.items != len(past.unchanged):
                return None
            return past if past.unchanged.begins(items) else None

    def now(
        self,
        key: Key,
        messages: Sequence[Message],
        items: Sequence[Any],
        past: Past | None,
    ) -> HistorySnapshot:
        """What is recorded of a history; nothing is when its past differs.

        `items` are those that `messages` were read from and that stay so; `past` is what was read
        of them before.
        """
        if past is not None:
            known = past.known
            whole = known.fingerprint.followed_by(messages[known.messages :])
            return HistorySnapshot(known, whole, items, held_by(items[past.items :]), past)
        with self._lock:
            before = self._pasts.get(key)
        known = (
            before.known if before and before.known.messages <= len(messages) else RecordedPrefix()
        )
        begun = Fingerprint(messages[: known.messages])
        whole = begun.followed_by(messages[known.messages :])
        return HistorySnapshot(
            known if begun == known.fingerprint else RecordedPrefix(), whole, items, held_by(items)
        )

    def remember(
        self,
        key: Key,
        now: HistorySnapshot,
        known: RecordedPrefix,
        transcript: Transcript | None = None,
    ) -> None:
        """A call recorded that much of a history that it found so."""
        with self._lock:
            self._drop(key)
            past = self._pasts[key] = self._gone_on(now, known, transcript)
            self._characters += past.unchanged.characters
            while len(self._pasts) > REMEMBERED:
                self._drop(next(iter(self._pasts)))
            if self._characters > MOST_CHARACTERS:
                self._forget_texts()

    def forget(self, key: Key) -> None:
        """Nothing is known of that history any more."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: Key) -> None:
        past = self._pasts.pop(key, None)
        self._characters -= past.unchanged.characters if past else 0

    @staticmethod
    def _gone_on(
        now: HistorySnapshot, known: RecordedPrefix, transcript: Transcript | None
    ) -> Past:
        past = now.past
        # Another call of the same history may have gone on with it meanwhile.
        unchanged, begun = (past.unchanged, past.items) if past else (Unchanged(), 0)
        if now.held is None or begun != len(unchanged) or begun > len(now.items):
            return Past(known)
        unchanged.add(now.items[begun:], now.held)
        return Past(known, unchanged, len(now.items), transcript)

    def _forget_texts(self) -> None:
        for key, past in self._pasts.items():
            if self._characters <= MOST_CHARACTERS:
                return
            self._characters -= past.unchanged.characters
            self._pasts[key] = Past(past.known)


def _shape(message: Any) -> bytes:
    try:
        # Version 2 has no references between objects, so equal values give equal bytes.
        return marshal.dumps(message, 2)
    except ValueError:
        return json.dumps(message, default=_plain).encode()


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else repr(value)
