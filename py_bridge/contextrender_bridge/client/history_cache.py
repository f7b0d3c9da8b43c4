"""Remembers which messages of each history are recorded, so that a client sends only new ones.

Long because comparing objects and remembering histories share the same lists. Texts cannot change
in Python; only the dicts and lists that contain them ("containers") can. `gc.get_referents` lists a
container's contents, and two lists of the same objects are compared without reading texts. The
containers of a history are compared in blocks. Each call compares the newest blocks and a few older
ones, so its cost does not grow with the history. Dict keys are not listed, so a key that is renamed
in place, without a change of order, is not noticed.
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


class Key(NamedTuple):
    """The key of a history. `token` is the user's, None for the client's own.

    `history_key` distinguishes histories that run in parallel in one session.
    """

    token: str | None
    session: str
    history_key: str


REMEMBERED = 1024
LARGE_CHARACTERS = 16 * 2**20
"""The number of characters above which `drop_large` forgets a history's texts."""
MOST_CHARACTERS = 64 * 2**20
"""The limit, in characters, of all texts that are kept in memory to see whether they changed.

Of the least recently used histories only fingerprints are kept, so their next calls read all
messages.
"""

BLOCK_CONTAINERS = 1024
"""The number of containers from which a block is full."""
COMPARED_BLOCKS = 4
"""The number of newest blocks that each call compares. It compares as many older blocks."""
ITEMS_AT_ONCE = 64
_PLAIN_TYPES = frozenset({str, int, float, bool, type(None), bytes})
_CONTAINER_TYPES = frozenset({dict, list, tuple})
_MAX_DEPTH = 64


class ContainerBlock(NamedTuple):
    """Some containers (dicts, lists and tuples), and the objects directly in them.

    `contents` is what `gc.get_referents` listed when the block was made.
    """

    containers: list[Any]
    contents: list[Any]

    def is_unchanged(self) -> bool:
        """Return whether the containers still have the same contents."""
        return gc.get_referents(*self.containers) == self.contents


def container_blocks(items: Sequence[Any]) -> list[ContainerBlock] | None:
    """Return blocks that have all containers in `items`, one for each `ITEMS_AT_ONCE` items.

    Return None if an item has an object that is neither a container nor a plain value such as a
    text, because a change inside of it could not be seen.
    """
    blocks = []
    for start in range(0, len(items), ITEMS_AT_ONCE):
        block = _container_block(items[start : start + ITEMS_AT_ONCE])
        if block is None:
            return None
        blocks.append(block)
    return blocks


def _container_block(items: Sequence[Any]) -> ContainerBlock | None:
    """Return a block of all containers in some items, to find out later whether one has changed.

    Return None if there are other objects than containers and plain values in the items, or if
    containers are nested deeper than `_MAX_DEPTH`.
    """
    block = ContainerBlock([], [])
    level = [item for item in items if type(item) not in _PLAIN_TYPES]
    # Go down level by level: `level` are the containers at one depth.
    for _ in range(_MAX_DEPTH):
        if not level:
            return block
        if not _CONTAINER_TYPES.issuperset(map(type, level)):
            return None
        contents = gc.get_referents(*level)
        block.containers.extend(level)
        block.contents.extend(contents)
        level = [value for value in contents if type(value) not in _PLAIN_TYPES]
    return None


class UnchangedItems:
    """The first items of a history, kept in memory to see whether they are unchanged.

    A later call has the same objects, but the caller may have changed them in place. Their
    containers are therefore kept in blocks, each with the contents that it had.
    """

    def __init__(self) -> None:
        """Begin without items."""
        self._items: list[Any] = []
        self._blocks: list[ContainerBlock] = []
        self._next_older_block = 0
        """The first of the older blocks that the next comparison includes."""
        self.characters = 0
        """The total length of the texts in the kept containers, to limit their memory."""

    def __len__(self) -> int:
        return len(self._items)

    def are_start_of(self, items: Sequence[Any]) -> bool:
        """Return whether `items` begin with the kept items and no compared block has changed.

        Callers mostly change new items. So compare the `COMPARED_BLOCKS` newest blocks at each
        call, and as many of the older ones. Each call takes the next older ones, and after the last
        the first ones again.
        """
        # First compare the items themselves, then find out whether they were changed in place.
        if items[: len(self._items)] != self._items:
            return False
        newest_blocks = self._blocks[-COMPARED_BLOCKS:]
        older_blocks = self._blocks[:-COMPARED_BLOCKS]
        if self._next_older_block >= len(older_blocks):
            self._next_older_block = 0
        start, stop = self._next_older_block, self._next_older_block + COMPARED_BLOCKS
        self._next_older_block = stop
        return all(block.is_unchanged() for block in (*newest_blocks, *older_blocks[start:stop]))

    def add(self, items: Sequence[Any], blocks: Sequence[ContainerBlock]) -> None:
        """Add more items, with the `blocks` of their containers from `container_blocks`.

        Join small blocks, because comparing few large blocks is faster.
        """
        self._items.extend(items)
        for block in blocks:
            if not self._blocks or len(self._blocks[-1].containers) >= BLOCK_CONTAINERS:
                self._blocks.append(ContainerBlock([], []))
            self._blocks[-1].containers.extend(block.containers)
            self._blocks[-1].contents.extend(block.contents)
            self.characters += sum(len(value) for value in block.contents if type(value) is str)


class Fingerprint:
    """A hash of messages that can be extended with later ones."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self._hash = hashlib.sha256(b"".join(map(_fingerprint_bytes, messages)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprint) and self._hash.digest() == other._hash.digest()

    __hash__ = None  # type: ignore[assignment]

    def extended(self, messages: Sequence[Message]) -> Fingerprint:
        """Return a new fingerprint, of this one's messages followed by these."""
        longer = Fingerprint()
        longer._hash = self._hash.copy()
        longer._hash.update(b"".join(map(_fingerprint_bytes, messages)))
        return longer


@dataclass(frozen=True)
class RecordedPrefix:
    """The recorded part of a history, its first messages.

    `messages` is their number, `fingerprint` the client's hash of them, and `digest` the service's.
    """

    messages: int = 0
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    digest: str = ""


@dataclass(frozen=True)
class CachedHistory:
    """A history after its last call: its recorded part `prefix`, and the items that the call read.

    - `items`: the items, which two calls that run at the same time may share and extend.
    - `item_count`: the number of `items` that this call read; 0 if no items are kept.
    - `transcript`: what a dialect read from the items; None if the items are the messages.
    """

    prefix: RecordedPrefix
    items: UnchangedItems = field(default_factory=UnchangedItems)
    item_count: int = 0
    transcript: Transcript | None = None


@dataclass(frozen=True)
class HistorySnapshot:
    """A history at the time of a call: its `messages`, and its recorded part `prefix`.

    - `fingerprint`: the hash of all its messages.
    - `items`: the items that it was read from and that are certain to be read alike when a later
      call adds items.
    - `transcript`: what a dialect read from the items; None if the items are the messages.
    - `cached`: the history after an earlier call, which this one continues; None without one.
    - `new_blocks`: the dicts and lists in the items after those of `cached`. With them a later call
      finds out whether an item was changed. None if an item has objects that cannot be compared.
    """

    messages: Sequence[Message]
    prefix: RecordedPrefix
    fingerprint: Fingerprint
    items: Sequence[Any] = ()
    transcript: Transcript | None = None
    new_blocks: list[ContainerBlock] | None = None
    cached: CachedHistory | None = None


class HistoryCache:
    """A cache of the most recently used histories; safe between threads."""

    def __init__(self) -> None:
        """Create an empty cache for the `REMEMBERED` most recently used histories."""
        self._histories: OrderedDict[Key, CachedHistory] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def find(self, key: Key, items: Sequence[Any]) -> CachedHistory | None:
        """Return the cached history of a key if `items` begin with its items, otherwise None.

        Return None, too, if its items are not kept. A returned history need not be read again.
        """
        with self._lock:
            cached = self._histories.get(key)
            if cached is None or not cached.item_count:
                return None
            if cached.item_count != len(cached.items):
                return None  # Another call that ran at the same time has extended the items.
            return cached if cached.items.are_start_of(items) else None

    def snapshot(
        self,
        key: Key,
        items: Sequence[Any],
        transcript: Transcript | None,
        cached: CachedHistory | None,
    ) -> HistorySnapshot:
        """Return a snapshot of a history: which of its first messages are recorded, and its items.

        `transcript` is what a dialect read from `items`; None if the items are the messages.
        `cached` is the history that they continue, as `find` returns it. If it is None, compare the
        fingerprint of the first messages with the fingerprint of the recorded ones. If they differ,
        no message counts as recorded.
        """
        messages = transcript.messages if transcript else items
        # Only these items are certain to be read alike when the next request adds items.
        items = items[: transcript.stable_count] if transcript else items
        if cached is not None:
            # `find` has compared the items, so only the new messages have to be read.
            prefix = cached.prefix
            fingerprint = prefix.fingerprint.extended(messages[prefix.messages :])
            new_blocks = container_blocks(items[cached.item_count :])
            return HistorySnapshot(
                messages, prefix, fingerprint, items, transcript, new_blocks, cached
            )
        # Read all messages, to find out whether they begin with the recorded ones.
        prefix = self._recorded_prefix(key, len(messages))
        prefix_fingerprint = Fingerprint(messages[: prefix.messages])
        fingerprint = prefix_fingerprint.extended(messages[prefix.messages :])
        if prefix_fingerprint != prefix.fingerprint:
            prefix = RecordedPrefix()
        blocks = container_blocks(items)
        return HistorySnapshot(messages, prefix, fingerprint, items, transcript, blocks)

    def _recorded_prefix(self, key: Key, message_count: int) -> RecordedPrefix:
        """Return the recorded prefix of the key's last history, or an empty one.

        It is empty if no history is known, or if its prefix has more than `message_count` messages.
        """
        with self._lock:
            cached = self._histories.get(key)
        if cached is None or cached.prefix.messages > message_count:
            return RecordedPrefix()
        return cached.prefix

    def remember(self, key: Key, snapshot: HistorySnapshot, digest: str) -> None:
        """Store that the service has recorded all messages of a history, which have this `digest`.

        `snapshot` is the history at the call that recorded it. Drop the least recently used
        histories if there are too many, and the texts of some if all texts are too long.
        """
        prefix = RecordedPrefix(len(snapshot.messages), snapshot.fingerprint, digest)
        with self._lock:
            self._drop(key)
            cached = self._histories[key] = self._next_cached(snapshot, prefix)
            self._characters += cached.items.characters
            while len(self._histories) > REMEMBERED:
                self._drop(next(iter(self._histories)))
            if self._characters > MOST_CHARACTERS:
                self._forget_texts()

    def forget(self, key: Key) -> None:
        """Remove a history."""
        with self._lock:
            self._drop(key)

    def drop_large(self) -> None:
        """Forget the texts of large histories, but not that they are recorded."""
        with self._lock:
            for key, cached in self._histories.items():
                if cached.items.characters > LARGE_CHARACTERS:
                    self._characters -= cached.items.characters
                    self._histories[key] = CachedHistory(cached.prefix)

    def _drop(self, key: Key) -> None:
        """Remove a history if it is cached, and subtract its characters."""
        cached = self._histories.pop(key, None)
        self._characters -= cached.items.characters if cached else 0

    @staticmethod
    def _next_cached(snapshot: HistorySnapshot, prefix: RecordedPrefix) -> CachedHistory:
        """Return the history to cache after a call.

        Add the snapshot's new items to the cached ones if they can be compared later. Otherwise
        return a history without items: the next call then reads all messages.
        """
        cached = snapshot.cached or CachedHistory(RecordedPrefix())
        items, cached_count = cached.items, cached.item_count
        has_fewer_items = len(snapshot.items) < cached_count  # fewer are stable than before
        was_extended = len(items) != cached_count  # by another call that ran at the same time
        # Without `new_blocks`, later changes of the new items could not be seen.
        if snapshot.new_blocks is None or has_fewer_items or was_extended:
            return CachedHistory(prefix)
        items.add(snapshot.items[cached_count:], snapshot.new_blocks)
        return CachedHistory(prefix, items, len(snapshot.items), snapshot.transcript)

    def _forget_texts(self) -> None:
        """Drop the items of the least recently used histories until the texts fit the limit."""
        for key, cached in self._histories.items():
            if self._characters <= MOST_CHARACTERS:
                return
            self._characters -= cached.items.characters
            self._histories[key] = CachedHistory(cached.prefix)


def _fingerprint_bytes(message: Any) -> bytes:
    """Return bytes of a message that are equal for equal messages, to hash them."""
    try:
        # Version 2 has no references between objects, so equal values give equal bytes.
        return marshal.dumps(message, 2)
    except ValueError:
        return json.dumps(message, default=_to_json_value).encode()


def _to_json_value(value: Any) -> Any:
    """Return a value that JSON can write, for an object that it cannot write."""
    return dict(value) if isinstance(value, Mapping) else repr(value)
