"""What the service has of each history, so that a client sends only what is new."""

from __future__ import annotations

import hashlib
import json
import marshal
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = Mapping[str, Any]

REMEMBERED = 1024


@dataclass(frozen=True)
class Known:
    """The first `messages` of a history are recorded; `digest` is the service's for them."""

    messages: int = 0
    fingerprint: bytes = b""
    digest: str = ""


class Sent:
    """The recorded part of the histories used last, without their texts; safe between threads."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        """Forgets the least recently used of more than `remembered` histories."""
        self._known: OrderedDict[Hashable, Known] = OrderedDict()
        self._remembered = remembered
        self._lock = threading.Lock()

    def compare(self, key: Hashable, messages: Sequence[Message]) -> tuple[Known, bytes]:
        """What is recorded of a history that now is `messages`, and their fingerprint.

        Nothing is when its past differs.
        """
        with self._lock:
            known = self._known.get(key, Known())
        before, now = fingerprints(messages, known.messages)
        return (known if before == known.fingerprint else Known()), now

    def remember(self, key: Hashable, known: Known) -> None:
        """A call recorded that much."""
        with self._lock:
            self._known[key] = known
            self._known.move_to_end(key)
            while len(self._known) > self._remembered:
                self._known.popitem(last=False)

    def forget(self, key: Hashable) -> None:
        """Nothing is known of that history any more."""
        with self._lock:
            self._known.pop(key, None)


def fingerprints(messages: Sequence[Message], first: int) -> tuple[bytes, bytes]:
    """Hashes of the first messages, and of all of them, as they are now."""
    shapes = [_shape(message) for message in messages]
    state = hashlib.sha256(b"".join(shapes[:first]))
    before = state.digest() if first <= len(messages) else b""
    state.update(b"".join(shapes[first:]))
    return before, state.digest()


def _shape(message: Any) -> bytes:
    try:
        # Version 2 has no references between objects, so equal values give equal bytes.
        return marshal.dumps(message, 2)
    except ValueError:
        return json.dumps(message, default=_plain).encode()


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else repr(value)
