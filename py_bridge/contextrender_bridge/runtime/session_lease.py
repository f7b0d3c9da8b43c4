"""The lease of a session: its lock, and the session's state in this process between requests.

Locks work between the threads of a process, and between the processes that share a data folder.
Long because a lease is a lock and a cached state at the same time.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar, Final, Self
from weakref import WeakValueDictionary

from contextrender_bridge.base.errors import Busy, ContextRenderError, Damaged
from contextrender_bridge.runtime.memory import CURRENT
from contextrender_bridge.sessions.ids import CALLER, ids_ahead, session_id_of
from contextrender_bridge.sessions.session_state import SessionState

try:
    import fcntl
except ImportError:  # Windows has no fcntl; there, one process serves a data folder.
    fcntl = None  # type: ignore[assignment]

Key = tuple[str, str]
"""The id of a user's root, and the key of a session of that user."""
PATIENCE: Final = 30.0
"""The maximum seconds for which a request waits for the lock of a session."""
_POLL_SECONDS: Final = 0.002
"""The pause between two tries to lock the file. A blocking call would have no time limit."""


class SessionLocks:
    """Locks by owner and session key.

    Against other processes, a session's lock is one byte of the folder's lock file. A process has
    only one handle of this file, because POSIX releases all of a process's locks on a file when the
    process closes any handle. POSIX does not lock out other threads of the process, so each session
    also has a lock of `threading`.
    """

    _locks_by_folder: ClassVar[dict[Path, Self]] = {}
    _folders_guard: ClassVar = threading.Lock()

    def __init__(self) -> None:
        """Create locks between the threads of this process. `shared` adds a folder's lock file."""
        self._guard = threading.Lock()
        self._locks_by_name = WeakValueDictionary[str, threading.Lock]()
        """The lock of each session in use, by `owner/key`. A lock exists while a thread uses it."""
        self._folder: Path | None = None
        self._sharers = 0
        """The number of `shared` calls that `unshare` has not ended."""
        self._file: IO[bytes] | None = None

    @classmethod
    def shared(cls, folder: Path) -> Self:
        """Return the locks of a folder, which also lock out other processes.

        All callers in this process share one object per folder. Each must call `unshare` when it no
        longer uses the locks.
        """
        folder = folder.resolve()
        with cls._folders_guard:
            locks = cls._locks_by_folder.setdefault(folder, cls())
            locks._sharers += 1
            if locks._file is None and fcntl is not None:
                locks._file = (folder / "sessions.lock").open("ab")
            locks._folder = folder
            return locks

    def unshare(self) -> None:
        """Undo one call of `shared`. The last one closes the lock file."""
        with self._folders_guard:
            self._sharers -= 1
            if self._folder is not None and not self._sharers:
                del self._locks_by_folder[self._folder]
                if self._file is not None:
                    self._file.close()
                    self._file = None

    @contextmanager
    def hold(self, owner: str, key: str, patience: float = PATIENCE) -> Iterator[None]:
        """Lock one session for the block. Raise Busy if that takes more than `patience` seconds.

        First lock out the other threads of this process, then the other processes.
        """
        name = f"{owner}/{key}"
        deadline = time.monotonic() + patience
        with self._guard:
            lock = self._locks_by_name.setdefault(name, threading.Lock())
        # Lock out the other threads of this process.
        if not lock.acquire(timeout=patience):
            raise Busy("another request is writing this session; try again")
        # Lock out the other processes, in the time that is left.
        try:
            with self._locked_in_file(name, deadline):
                yield
        finally:
            lock.release()

    @contextmanager
    def _locked_in_file(self, name: str, deadline: float) -> Iterator[None]:
        """Lock a session's byte against other processes. Raise Busy if the deadline passes.

        Do nothing without a lock file. `deadline` is a time of the monotonic clock, in seconds.
        """
        if self._file is None:
            yield
            return
        place = _byte_of(name)
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise Busy("another process is writing this session; try again") from None
                time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)


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
        entry = _CachedState(state, _size_of(state), time.monotonic())
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
            self._replace(key, _CachedState(state, _size_of(state), time.monotonic()))
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


def _size_of(state: SessionState) -> int:
    """Return an estimate of the memory that a state holds, in bytes.

    If several histories share texts, these texts count several times.
    """
    nodes = 3_000 * len(state.nodes) + 600 * len(state.branches)
    return nodes + sum(history.nbytes for history in state.histories.values())


WORKING_SET: Final = SessionCache(0)
"""The sessions that agents render. `caches.limit_caches` sets its limit."""


class SessionLease:
    """The lock of one of the caller's sessions, with the session's state in this process.

    `cached` is the state from earlier requests. The walker sets `state` for later requests. `ahead`
    is a branch and a number of messages. The nodes that a call after these messages needs are
    loaded in advance. (-1, 0) means that no nodes are.

    A walk has many abilities, so no `with` block can hold the lock. The request holds it until it
    has written or failed. If the write fails, a changed state is dropped.
    """

    def __init__(self, key: str) -> None:
        """Wait for the lock of the caller's session with this key. Then read its cached state.

        The lock is held until the request ends or `release` is called.
        """
        root = CALLER.get()
        self.owner_and_key: Key = (str(root), key)
        self.id = session_id_of(root, key)
        self.cached: SessionState | None = None
        self.state: SessionState | None = None
        self.ahead = (-1, 0)  # no nodes are loaded in advance
        self._memory = CURRENT.get()
        self._lock = ExitStack()
        self._released = False
        self._memory.on_end.enter_context(self)  # Lock the session until the request ends.
        # A write of the request fails if the session has changed since it was read.
        self._memory.require_unchanged(self.id)
        self.cached = WORKING_SET.get(self.owner_and_key)
        self._cached_histories = len(self.cached.histories) if self.cached else 0

    def adopt_nodes(self) -> bool:
        """Reuse the nodes that the last request has loaded; return False if they are outdated."""
        assert self.cached is not None
        # Take the nodes from the cache: this request may change them and then fail.
        nodes, self.cached.nodes = self.cached.nodes, {}
        return self._memory.adopt(nodes, self.id)

    def row_revision(self) -> int:
        """Return the revision of the session's row. Each request that writes increments it."""
        return self._memory.revision(self.id)

    def release(self) -> None:
        """Release the lock before the request ends. The session must be unchanged."""
        state = self.state
        if state and state is self.cached and len(state.histories) == self._cached_histories:
            self._lock.close()  # the cache has this state, and knows its size
        else:
            # The request still needs its nodes, and `__exit__` detaches them only if `all_stored`.
            self._memory.all_stored = False
            self.__exit__(None, None, None)
        self._released = True

    def __enter__(self) -> Self:
        # Commands that use the graph without a server have no locks.
        if self._memory.locks is not None:
            self._lock.enter_context(self._memory.locks.hold(*self.owner_and_key))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the lock. Cache the session's state for the next request if the store has it.

        Otherwise drop the cached state. Do nothing if `release` was called before.
        """
        if self._released:
            return
        with self._lock:  # The end of the block releases the lock.
            if self.state is None or not self._is_stored(self.state, failure):
                WORKING_SET.drop(self.owner_and_key)
            elif failure is None:  # If the request was refused, the cache keeps the state it has.
                self.state.changed = False
                if self._memory.all_stored:
                    # The next request is likely to need these nodes, and need not read them.
                    self.state.nodes = self._memory.detach(ids_ahead(self.state))
                WORKING_SET.put(self.owner_and_key, self.state)

    def _is_stored(self, state: SessionState, failure: BaseException | None) -> bool:
        """Return whether the store certainly has this state at the end of the request.

        `failure` is the error that ended the request, or None.
        """
        # A changed state is stored only if this request was written.
        if state.changed:
            return failure is None and self._memory.wrote
        # The store still has an unchanged state if the request was only refused. Another error may
        # mean that the state is wrong.
        is_own_error = isinstance(failure, ContextRenderError)
        is_refusal = is_own_error and not isinstance(failure, Damaged)
        return failure is None or is_refusal


def _byte_of(name: str) -> int:
    """Return the offset of a session's byte in the lock file.

    The byte need not exist in the file. Two sessions with the same offset only wait for each other.
    """
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
