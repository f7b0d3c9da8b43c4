"""The sessions cached in this process."""

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from contextrender_bridge.engine.history.branch_matching import BranchInfo
from contextrender_bridge.engine.history.history import History

Key = tuple[str, str]


@dataclass(slots=True)
class SessionState:
    """A session in memory, as the store had it at `revision`.

    `epoch` tells apart two sessions with the same key, if the first one was deleted. `head` is the
    branch that was used last. `histories` maps the numbers of loaded branches to their histories.
    `changed` is true while the session has messages that are not committed. `nodes` are the stored
    nodes that the next call needs. They are here for other packages; the engine does not read them.
    """

    id: UUID
    epoch: float
    revision: int
    head: int
    branches: list[BranchInfo]
    histories: dict[int, History] = field(default_factory=dict)
    changed: bool = False
    nodes: dict[UUID, Any] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """An estimate of the memory held, in bytes.

        If several histories share texts, these texts count several times.
        """
        nodes = 3_000 * len(self.nodes)
        return nodes + 600 * len(self.branches) + sum(h.nbytes for h in self.histories.values())


@dataclass(slots=True)
class _CachedState:
    """A cached state, its size in bytes when it was added, and the time of its last use."""

    state: SessionState
    size: int
    used_at: float


_MAX_OVERSIZE = 4
"""If only one state is cached, it may have this multiple of the cache's limit, without texts."""


class SessionCache:
    """A thread-safe cache of session states by (owner, session), of about `limit` bytes.

    Only the holder of a session's lock may change its state.
    """

    def __init__(self, limit: int) -> None:
        """Start an empty cache. `limit` is in bytes."""
        self.limit = limit
        self._guard = threading.Lock()
        self._entries: OrderedDict[Key, _CachedState] = OrderedDict()
        """The least recently used state is first."""
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """The memory of all states, in bytes, as it was when they were added."""
        return self._bytes

    def get(self, key: Key) -> SessionState | None:
        """Return the state of a session, or None. Mark it as the most recently used one."""
        with self._guard:
            entry = self._entries.get(key)
            if entry is None:
                return None
            entry.used_at = time.monotonic()
            self._entries.move_to_end(key)
            return entry.state

    def put(self, key: Key, state: SessionState) -> None:
        """Add a state. If the cache is then above its limit, drop the least recently used states.

        If this state alone is above the limit, drop its texts and all of its histories except the
        head's. If it is then still above `_MAX_OVERSIZE` times the limit, do not cache it.
        """
        entry = _CachedState(state, state.nbytes, time.monotonic())
        with self._guard:
            self._replace(key, entry)
            while self._bytes > self.limit and len(self._entries) > 1:
                self._drop(next(iter(self._entries)))
            if self._bytes <= self.limit:
                return
            # Only this state is left, and it is above the limit: drop what can be read again.
            for history in state.histories.values():
                history.forget_texts()
            head = state.histories.get(state.head)
            state.histories = {} if head is None else {state.head: head}
            self._replace(key, _CachedState(state, state.nbytes, time.monotonic()))
            if self._bytes > _MAX_OVERSIZE * self.limit:
                self._drop(key)

    def drop_idle(self, size: int, seconds: float) -> bool:
        """Drop states of at least `size` bytes that were not used for `seconds` seconds.

        Return whether there were any. A request that is still working on a dropped state adds it
        again at its end.
        """
        latest_use = time.monotonic() - seconds
        with self._guard:
            idle_keys = [
                key
                for key, entry in self._entries.items()
                if entry.size >= size and entry.used_at < latest_use
            ]
            for key in idle_keys:
                self._drop(key)
        return bool(idle_keys)

    def drop(self, key: Key) -> None:
        """Drop a state."""
        with self._guard:
            self._drop(key)

    def clear(self) -> None:
        """Drop every state."""
        with self._guard:
            self._entries.clear()
            self._bytes = 0

    def _replace(self, key: Key, entry: _CachedState) -> None:
        """Add a state as the most recently used one. It replaces an earlier state of its key."""
        self._drop(key)
        self._entries[key] = entry
        self._bytes += entry.size

    def _drop(self, key: Key) -> None:
        """Drop the state of a key, if there is one. The caller must hold the guard."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.size
