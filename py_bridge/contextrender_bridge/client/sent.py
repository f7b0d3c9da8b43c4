"""What the server already has of each history, so that a client sends only what is new."""

from __future__ import annotations

import hashlib
import json
import marshal
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from contextrender_bridge.client.unchanged import Held, Unchanged, held_by
from contextrender_bridge.dialects.base import Transcript

Message = Mapping[str, Any]
Key = tuple["str | None", str, str]
"""A user's token where it is not the client's own, a session, and which of its histories."""

REMEMBERED = 1024
MOST_CHARACTERS = 64 * 2**20
"""Of texts that are kept alive to see that they are unchanged; of older histories there are only
fingerprints, and all of them is read again."""


class Fingerprint:
    """A hash of messages, which goes on with those that follow."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        """Of these, as they are now."""
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
class Known:
    """The first `messages` of a history are recorded; `digest` is the service's for them."""

    messages: int = 0
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    digest: str = ""


@dataclass(frozen=True)
class Past:
    """What was read of a history: so many items as the caller has them, and their transcript."""

    known: Known
    unchanged: Unchanged = field(default_factory=Unchanged)
    items: int = 0
    transcript: Transcript | None = None


@dataclass(frozen=True)
class Now:
    """A history as a call finds it: the part that is recorded, and all of it."""

    known: Known
    fingerprint: Fingerprint
    items: Sequence[Any] = ()
    held: list[Held] | None = None
    past: Past | None = None


class Sent:
    """The histories used last; safe between threads."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        """Forgets the least recently used of more than `remembered` histories."""
        self._pasts: OrderedDict[Key, Past] = OrderedDict()
        self._remembered = remembered
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
    ) -> Now:
        """What is recorded of a history; nothing is when its past differs.

        `items` are those that `messages` were read from and that stay so; `past` is what was read
        of them before.
        """
        if past is not None:
            known = past.known
            whole = known.fingerprint.followed_by(messages[known.messages :])
            return Now(known, whole, items, held_by(items[past.items :]), past)
        with self._lock:
            before = self._pasts.get(key)
        known = before.known if before and before.known.messages <= len(messages) else Known()
        begun = Fingerprint(messages[: known.messages])
        whole = begun.followed_by(messages[known.messages :])
        return Now(known if begun == known.fingerprint else Known(), whole, items, held_by(items))

    def remember(
        self, key: Key, now: Now, known: Known, transcript: Transcript | None = None
    ) -> None:
        """A call recorded that much of a history that it found so."""
        with self._lock:
            self._drop(key)
            past = self._pasts[key] = self._gone_on(now, known, transcript)
            self._characters += past.unchanged.characters
            while len(self._pasts) > self._remembered:
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
    def _gone_on(now: Now, known: Known, transcript: Transcript | None) -> Past:
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
