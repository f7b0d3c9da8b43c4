"""The file of a SQLite store, and whether it is still the one that was opened, and whole.

A write to another file would be lost.
"""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final, Self

from contextrender_bridge.store.sqlite_log import WriteAheadLog, file_identity
from contextrender_bridge.store.writes import StoreUnavailable

MAGIC: Final = b"SQLite format 3\0"
HEAD: Final = 100
NUMBERS: Final = ((16, 2), (24, 4), (28, 4))
"""Offset and length of the page size, the change counter and the number of pages in the head."""
CHECKPOINT_SECONDS: Final = (0.02, 0.1, 0.4)
"""Waits while another process copies its log into the file: the head comes before other pages."""
INTEGRITY_CHECK: Final = "PRAGMA integrity_check(20)"
"""The check of every page and index of a file. It stops after 20 errors."""


class SqliteFile:
    """A database file that this process holds open once, whatever the number of its stores.

    To close any handle to the file drops SQLite's locks on it: another process could damage it.
    """

    _by_identity: ClassVar[dict[tuple[int, int], Self]] = {}
    _guard: ClassVar = threading.Lock()

    def __init__(self, path: Path, identity: tuple[int, int]) -> None:
        """Use `open`."""
        self._path, self._identity = path, identity
        self._handle = path.open("rb", buffering=0)
        self._reading = threading.Lock()
        self._holders = 0
        self._page = self._counter = 0
        self._size = 0
        self._log: WriteAheadLog | None = None
        self._connections = 0
        self.connecting = threading.Lock()
        """Held while a connection is opened or closed: SQLite removes the log with the last."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the file of a path. Raise StoreUnavailable if it cannot be opened."""
        with cls._guard:
            identity = file_identity(path)
            try:
                if identity is None:
                    raise FileNotFoundError(2, os.strerror(2))
                file = cls._by_identity.get(identity) or cls(path, identity)
            except OSError as failure:
                raise StoreUnavailable(f"{path} cannot be opened: {failure.strerror}.") from failure
            cls._by_identity[identity] = file
            file._holders += 1
            return file

    def close(self) -> None:
        """Give back what one `open` returned; the last closes the file."""
        with self._guard:
            self._holders -= 1
            if not self._holders:
                del self._by_identity[self._identity]
                self._handle.close()

    def add_connection(self) -> None:
        """Count one more connection of this process."""
        self._connections += 1

    def remove_connection(self) -> None:
        """Count one connection less. After the last is closed, the log is another."""
        self._connections -= 1
        if not self._connections and self._log is not None:
            self._log.close()
            self._log = None

    def check_before_write(self) -> None:
        """Raise StoreUnavailable if the log was removed, cut or overwritten, within a transaction.

        The first transaction of this process opens the log that it made or found.
        """
        if self._log is None:
            self._log = WriteAheadLog(self._path)
        self._log.check_before_write()

    def record_write(self) -> None:
        """Remember the log as a transaction left it, for the next `check_before_write`."""
        if self._log is not None:
            self._log.record_write()

    def check_log(self) -> None:
        """Raise StoreUnavailable if the log is known to be damaged, or SQLite would crash."""
        if self._log is not None:
            self._log.check_before_read()

    def can_save_log(self) -> bool:
        """Return whether a connection that closes may copy the log into the file."""
        return self._log is None or self._log.can_be_saved()

    def check_whole(self, is_written: bool = False) -> None:
        """Raise StoreUnavailable if the file was cut or overwritten.

        Before a write also if there is another file in its place, or none.
        """
        if is_written and file_identity(self._path) != self._identity:
            raise StoreUnavailable(
                f"{self._path} is not the file that was opened; nothing was written."
            )
        for pause in (*CHECKPOINT_SECONDS, None):
            if self._is_whole():
                return
            if pause is not None:
                time.sleep(pause)
        raise StoreUnavailable(
            f"{self._path} was cut or overwritten by another program; nothing was written. "
            "Stop the server and restore a backup."
        )

    def _is_whole(self) -> bool:
        """Return whether head and size are as they were, or as later writes make them.

        Pages that a killed process or a full disk kept out of the file are in the log. So a file
        may be shorter than its head says, but not shorter than it was.
        """
        with self._reading:
            self._handle.seek(0)
            head = self._handle.read(HEAD)
            size = self._handle.seek(0, os.SEEK_END)
            page, counter, pages = (int.from_bytes(head[at : at + n]) for at, n in NUMBERS)
            self._page = self._page or page
            if head[:16] != MAGIC or page != self._page or counter < self._counter:
                return False
            if size < self._size and size < pages * page:
                return False
            self._size = size
            self._counter = counter
            return True


def make_file(path: Path) -> None:
    """Create an empty file for its owner alone, unless there is one (`SqliteFile` says why)."""
    try:
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as failure:
        raise StoreUnavailable(f"{path} cannot be opened: {failure.strerror}.") from failure


def integrity_errors(answers: Sequence[tuple[str]]) -> list[str]:
    """Return the errors among the answers to INTEGRITY_CHECK, each in one line.

    A line of `***` is the heading of a database.
    """
    lines = [line.strip() for (answer,) in answers for line in answer.splitlines()]
    return [line for line in lines if line not in ("", "ok") and not line.startswith("***")]
