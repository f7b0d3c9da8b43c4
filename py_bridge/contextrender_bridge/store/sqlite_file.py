"""The file of a SQLite store: checks that it was not replaced, cut or overwritten.

A write to a file that was replaced would be lost.
"""

import errno
import os
import struct
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final, Self

from contextrender_bridge.store.sqlite_log import WriteAheadLog, file_identity
from contextrender_bridge.store.writes import StoreUnavailable

MAGIC: Final = b"SQLite format 3\0"
HEADER: Final = struct.Struct(">16s H 6x I I 68x")
"""The file's first 100 bytes: MAGIC, the page size, the change counter and the number of pages."""
CHECKPOINT_SECONDS: Final = (0.02, 0.1, 0.4)
"""Waits before the file is checked again. It may look damaged while another process copies pages
of the log into it, because the header is copied before other pages."""
INTEGRITY_CHECK: Final = "PRAGMA integrity_check(20)"
"""The check of every page and index of a file. It stops after 20 errors."""


class SqliteFile:
    """A database file, of which this process has only one open handle for all its stores.

    When a process closes any handle to a file, it loses all of SQLite's locks on the file. Another
    process could then damage it.
    """

    _by_identity: ClassVar[dict[tuple[int, int], Self]] = {}
    _guard: ClassVar = threading.Lock()

    def __init__(self, path: Path, identity: tuple[int, int]) -> None:
        """Open the file. Callers use `open`, which shares one object per file."""
        self._path, self._identity = path, identity
        self._handle = path.open("rb", buffering=0)
        self._header_lock = threading.Lock()
        self._open_count = 0
        # The values of the header and the size of the file at the last check.
        self._page_bytes = self._change_counter = self._file_bytes = 0
        self._log: WriteAheadLog | None = None
        self._connection_count = 0
        self.connection_lock = threading.Lock()
        """The lock for opening and closing connections. SQLite removes the log with the last."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the file at a path; the caller must `close` it.

        Raise StoreUnavailable if there is no file or it cannot be opened.
        """
        # Paths of one file have the same identity, so they share one object and one handle.
        with cls._guard:
            identity = file_identity(path)
            try:
                if identity is None:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                file = cls._by_identity.get(identity) or cls(path, identity)
            except OSError as failure:
                raise StoreUnavailable(f"{path} cannot be opened: {failure.strerror}.") from failure
            cls._by_identity[identity] = file
            file._open_count += 1
            return file

    def close(self) -> None:
        """Undo one call of `open`. The last one closes the handle."""
        with self._guard:
            self._open_count -= 1
            if not self._open_count:
                del self._by_identity[self._identity]
                self._handle.close()

    def add_connection(self) -> None:
        """Count one more connection of this process."""
        self._connection_count += 1

    def remove_connection(self) -> None:
        """Count one connection less. If none is left, close the log, which SQLite has removed."""
        self._connection_count -= 1
        if not self._connection_count and self._log is not None:
            self._log.close()
            self._log = None

    def check_before_write(self) -> None:
        """Raise StoreUnavailable if the log was removed, cut or overwritten.

        The caller must be in a write transaction. The first call opens the log.
        """
        if self._log is None:
            self._log = WriteAheadLog(self._path)
        self._log.check_before_write()

    def record_write(self) -> None:
        """Remember the state of the log after a transaction, for the next `check_before_write`."""
        if self._log is not None:
            self._log.record_write()

    def check_log(self) -> None:
        """Raise StoreUnavailable if the log is known to be damaged, or would make SQLite crash."""
        if self._log is not None:
            self._log.check_before_read()

    def can_save_log(self) -> bool:
        """Return whether a connection that closes may copy the log into the file."""
        return self._log is None or self._log.can_be_saved()

    def check_whole(self, before_write: bool = False) -> None:
        """Raise StoreUnavailable if the file was cut or overwritten.

        If `before_write` is true, also raise it if another file, or no file, is now at the path. If
        the file looks damaged, check it again later, because another process may be copying pages.
        """
        if before_write and file_identity(self._path) != self._identity:
            raise StoreUnavailable(
                f"{self._path} is not the file that was opened; nothing was written."
            )
        if self._looks_whole():
            return
        # Another process may be copying pages into the file, so wait and check again.
        for pause in CHECKPOINT_SECONDS:
            time.sleep(pause)
            if self._looks_whole():
                return
        raise StoreUnavailable(
            f"{self._path} was cut or overwritten by another program; nothing was written. "
            "Stop the server and restore a backup."
        )

    def _looks_whole(self) -> bool:
        """Return whether SQLite itself may have made the file's changes since the last check.

        It has not if the header is invalid or older, or if the file was cut before pages that the
        header counts. If the file looks whole, remember its header and size for the next check.
        """
        with self._header_lock:
            self._handle.seek(0)
            header = self._handle.read(HEADER.size).ljust(HEADER.size, b"\0")
            file_bytes = self._handle.seek(0, os.SEEK_END)
            magic, page_bytes, change_counter, page_count = HEADER.unpack(header)
            self._page_bytes = self._page_bytes or page_bytes  # Only the first check sets it.
            is_header_valid = (
                magic == MAGIC
                and page_bytes == self._page_bytes
                and change_counter >= self._change_counter
            )
            # `reclaim` makes the file shorter, but then the file has all pages that its header
            # counts. After a process was killed or the disk was full, some of these pages are only
            # in the log, but then the file has not become shorter.
            became_shorter = file_bytes < self._file_bytes
            lacks_pages = file_bytes < page_count * page_bytes
            if not is_header_valid or (became_shorter and lacks_pages):
                return False
            self._file_bytes = file_bytes
            self._change_counter = change_counter
            return True


def make_file(path: Path) -> None:
    """Create an empty file that only its owner may read, if there is no file.

    Do not open an existing file, because closing it would release SQLite's locks. Raise
    StoreUnavailable if the file cannot be created.
    """
    try:
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as failure:
        raise StoreUnavailable(f"{path} cannot be opened: {failure.strerror}.") from failure


def integrity_errors(answers: Sequence[tuple[str]]) -> list[str]:
    """Return the errors in the answers to INTEGRITY_CHECK, one line each.

    A line that begins with `***` is only a heading.
    """
    lines = [line.strip() for (answer,) in answers for line in answer.splitlines()]
    return [line for line in lines if line not in ("", "ok") and not line.startswith("***")]
