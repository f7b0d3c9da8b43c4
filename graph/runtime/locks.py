"""One writer a session: between threads, and between processes that share a data folder."""

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from contextrender_bridge.errors import Busy

try:
    import fcntl
except ImportError:  # not on Windows, where one process serves a data folder
    fcntl = None  # type: ignore[assignment]

PATIENCE: Final = 30.0
_POLL: Final = 0.002


class SessionLocks:
    """Locks by owner and session key.

    Between processes each session is one byte of a single lock file, which stays open: POSIX
    drops a process's locks on a file as soon as it closes any handle to it.
    """

    def __init__(self) -> None:
        """Locks between threads, until `share` names a folder."""
        self._guard = threading.Lock()
        self._held: dict[str, tuple[threading.Lock, int]] = {}
        self._file: IO[bytes] | None = None

    def share(self, folder: Path) -> None:
        """From now on also locks out other processes that share the same folder."""
        self.unshare()
        if fcntl is not None:
            self._file = (folder / "sessions.lock").open("ab")

    def unshare(self) -> None:
        """From now on only locks between threads."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @contextmanager
    def hold(self, owner: str, key: str, patience: float = PATIENCE) -> Iterator[None]:
        """Holds one session for the block. Raises Busy after `patience` seconds."""
        name = f"{owner}/{key}"
        deadline = time.monotonic() + patience
        lock = self._borrow(name)
        try:
            if not lock.acquire(timeout=patience):
                raise Busy("another request is writing this session; try again")
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
        with self._guard:
            lock, users = self._held.get(name, (threading.Lock(), 0))
            self._held[name] = (lock, users + 1)
            return lock

    def _give_back(self, name: str) -> None:
        with self._guard:
            lock, users = self._held[name]
            if users == 1:
                del self._held[name]
            else:
                self._held[name] = (lock, users - 1)

    def _lock_file(self, name: str, deadline: float) -> None:
        if self._file is None:
            return
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte_of(name))
            except OSError:
                if time.monotonic() > deadline:
                    raise Busy("another process is writing this session; try again") from None
                time.sleep(_POLL)
            else:
                return

    def _unlock_file(self, name: str) -> None:
        if self._file is not None:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _byte_of(name))


def _byte_of(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")


LOCKS = SessionLocks()


@contextmanager
def starting(folder: Path) -> Iterator[None]:
    """Be the only process that opens the store of this folder, for the block."""
    with (folder / "start.lock").open("ab") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
