"""The sessions kept in process: a cache of what the graph holds, bounded by bytes.

Nothing here is the only copy of anything. Texts go before structure, the least recently used
session first; what was dropped is read from the graph again.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from engine.history.branches import BranchInfo
from engine.history.history import History

Key = tuple[str, str]


@dataclass(slots=True)
class SessionState:
    """A session as of `revision`; `epoch` tells it from an earlier session of the same key.

    It is `changed` while it is ahead of what is committed.
    """

    epoch: float
    revision: int
    head: int
    branches: list[BranchInfo]
    histories: dict[int, History] = field(default_factory=dict)
    changed: bool = False

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return 600 * len(self.branches) + sum(h.nbytes for h in self.histories.values())


class WorkingSet:
    """Session states by (owner, session), at most `limit` bytes of them; safe between threads.

    A state may be changed only by the holder of its session's lock.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._guard = threading.Lock()
        self._states: OrderedDict[Key, tuple[SessionState, int]] = OrderedDict()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """What all states held when last put, in bytes."""
        return self._bytes

    def get(self, key: Key) -> SessionState | None:
        """The state, marked as just used."""
        with self._guard:
            held = self._states.get(key)
            if held is None:
                return None
            self._states.move_to_end(key)
            return held[0]

    def put(self, key: Key, state: SessionState) -> None:
        """Keeps a state, and drops others, or its own texts, beyond the limit."""
        size = state.nbytes
        with self._guard:
            self._forget(key)
            self._states[key] = (state, size)
            self._bytes += size
            while self._bytes > self.limit and len(self._states) > 1:
                self._forget(next(iter(self._states)))
            if self._bytes > self.limit:
                for history in state.histories.values():
                    history.forget_texts()
                head = state.histories.get(state.head)
                state.histories = {} if head is None else {state.head: head}
                self._forget(key)
                self._states[key] = (state, state.nbytes)
                self._bytes += state.nbytes
                if self._bytes > 4 * self.limit:
                    self._forget(key)

    def drop(self, key: Key) -> None:
        """Forgets a state."""
        with self._guard:
            self._forget(key)

    def clear(self) -> None:
        """Forgets every state."""
        with self._guard:
            self._states.clear()
            self._bytes = 0

    def _forget(self, key: Key) -> None:
        held = self._states.pop(key, None)
        if held is not None:
            self._bytes -= held[1]
