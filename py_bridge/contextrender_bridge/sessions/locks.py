"""Locks by which only one request at a time writes a session.

They work between the threads of a process, and between the processes that share a data folder.
"""

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, ClassVar, Final, Self

from contextrender_bridge.base.errors import Busy

try:
    import fcntl
except ImportError:  # Windows has no fcntl; there, one process serves a data folder.
    fcntl = None  # type: ignore[assignment]

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
        self._locks_by_name: dict[str, tuple[threading.Lock, int]] = {}
        """The lock of each session in use, with the number of its threads, by `owner/key`."""
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
        lock = self._borrow(name)
        try:
            # Lock out the other threads of this process.
            if not lock.acquire(timeout=patience):
                raise Busy("another request is writing this session; try again")
            # Lock out the other processes, in the time that is left.
            try:
                self._lock_file(name, deadline)
                try:
                    yield
                finally:
                    self._unlock_file(name)
            finally:
                lock.release()
        finally:
            self._give_back(name)

    def _borrow(self, name: str) -> threading.Lock:
        """Return the lock of a session, and count one more thread that uses it."""
        with self._guard:
            lock, users = self._locks_by_name.get(name, (threading.Lock(), 0))
            self._locks_by_name[name] = (lock, users + 1)
            return lock

    def _give_back(self, name: str) -> None:
        """Stop using the lock of a session, and forget it if no other thread uses it."""
        with self._guard:
            lock, users = self._locks_by_name[name]
            if users == 1:
                del self._locks_by_name[name]
            else:
                self._locks_by_name[name] = (lock, users - 1)

    def _lock_file(self, name: str, deadline: float) -> None:
        """Lock a session's byte against other processes. Raise Busy if the deadline passes.

        Do nothing without a lock file. `deadline` is a time of the monotonic clock, in seconds.
        """
        if self._file is None:
            return
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte_of(name))
            except OSError:
                if time.monotonic() > deadline:
                    raise Busy("another process is writing this session; try again") from None
                time.sleep(_POLL_SECONDS)
            else:
                return

    def _unlock_file(self, name: str) -> None:
        """Release a session's byte, if there is a lock file."""
        if self._file is not None:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _byte_of(name))


def _byte_of(name: str) -> int:
    """Return the offset of a session's byte in the lock file.

    The byte need not exist in the file. Two sessions with the same offset only wait for each other.
    """
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
