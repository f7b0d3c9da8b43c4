"""The file and the write-ahead log of a SQLite store: checks for damage by other programs.

Long because the checks share the formats of the file, the log and the log's index. The formats are
SQLite's own: https://www.sqlite.org/fileformat.html and https://www.sqlite.org/walformat.html.

A write to a file that was replaced would be lost. The log has a frame for each page that was
written: a header and the page. The index has the page number of each frame.
"""

import errno
import os
import struct
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, Self

from contextrender_bridge.store.writes import StoreUnavailable

MAGIC: Final = b"SQLite format 3\0"
HEADER: Final = struct.Struct(">16s H 6x I I 68x")
"""The file's first 100 bytes: MAGIC, the page size, the change counter and the number of pages."""
CHECKPOINT_SECONDS: Final = (0.02, 0.1, 0.4)
"""Waits before the file is checked again. It may look damaged while another process copies pages
of the log into it, because the header is copied before other pages."""
INTEGRITY_CHECK: Final = "PRAGMA integrity_check(20)"
"""The check of every page and index of a file. It stops after 20 errors."""
INDEX_HEADER: Final = struct.Struct("=12xBxHI4x2I8s8x")
"""The index's header: a flag that SQLite has filled the index, the page size, the number of frames,
the last frame's checksum, and the salt. The index begins with two copies of it. Four bytes follow:
the number of frames whose pages have been copied into the database file."""
INDEX_START: Final = 2 * INDEX_HEADER.size + 4
ENTRY_BYTES: Final = 4
ENTRIES_PER_BLOCK: Final = 4_096
INDEX_BLOCK_BYTES: Final = 32_768
"""Each block of the index begins with its entries, which are page numbers of frames."""
HEADER_ENTRIES: Final = 34
"""The number of entries by which the first block is shorter, because it has the header."""
LOG_HEADER: Final = struct.Struct(">16x8s2I")
"""The log's salt and the checksum of its header. Each frame repeats the salt of its log."""
FRAME_HEADER: Final = struct.Struct(">I4x8s2I")
"""A frame's page number, salt and checksum. The frame's page follows."""
CHECKED_BYTES: Final = 8
"""The number of bytes of a frame's header that its checksum covers, besides the page."""
LARGEST_PAGE: Final = 65_536
"""The index has 1 for this page size, because its two bytes cannot hold it."""

type Checksum = tuple[int, int]


class Index(NamedTuple):
    """The state of the log, as the header of its index describes it."""

    page_bytes: int
    frame_count: int
    checksum: Checksum
    """The checksum of the last frame."""
    salt: bytes
    """A random value, which SQLite changes when it begins the log again."""
    copied_count: int
    """The number of frames whose pages have been copied into the database file."""

    @property
    def frame_bytes(self) -> int:
        """The size of a frame."""
        return FRAME_HEADER.size + self.page_bytes

    def offset(self, frame: int) -> int:
        """Return where a frame begins in the log; the first is frame 0."""
        return LOG_HEADER.size + frame * self.frame_bytes


class WriteAheadLog:
    """The log and its index. A process keeps them open while it has connections to the database.

    When the process closes any handle to the index, it loses all of SQLite's locks on it.
    """

    def __init__(self, database: Path) -> None:
        """Open the log and the index of this database, which has an open connection."""
        self._log_path, self._index_path = (
            database.with_name(database.name + end) for end in ("-wal", "-shm")
        )
        self._log = self._log_path.open("rb", buffering=0)
        self._index = self._index_path.open("rb", buffering=0)
        self._identities = file_identity(self._log_path), file_identity(self._index_path)
        self._largest_index = 0
        """The size of the index in bytes, when it was largest. SQLite never makes it smaller."""
        self._last_write: tuple[Index | None, int] | None = None
        """The index and the time of the log's last change, in ns, after the last transaction."""
        self._damaged_file: Path | None = None
        """The file that was found damaged, or None. It is never accepted again by this process."""

    def close(self) -> None:
        """Close both files. The caller must have closed all connections of this process."""
        self._log.close()
        self._index.close()

    def check_before_read(self) -> None:
        """Raise StoreUnavailable if damage is known, or if SQLite would crash on a cut index."""
        if self._damaged_file is None and self._is_index_cut():
            self._damaged_file = self._index_path
        if self._damaged_file is not None:
            self._refuse(self._damaged_file)

    def check_before_write(self) -> None:
        """Raise StoreUnavailable if another program removed, cut or overwrote the log or index.

        The caller must be in a write transaction, so that no process writes meanwhile.
        """
        if (file_identity(self._log_path), file_identity(self._index_path)) != self._identities:
            raise StoreUnavailable(
                f"{self._log_path} or -shm was removed by another program; nothing was written. "
                "Stop the server: it saves what it wrote as it ends."
            )
        self.check_before_read()
        # Compare the last frame with the index, and all frames if only their file has changed.
        if (index := self._read_index()) is not None:
            if (damaged_file := self._find_damage(index)) is not None:
                self._refuse(damaged_file)
            self._check_without_commit(index)

    def _check_without_commit(self, index: Index) -> None:
        """Raise StoreUnavailable if the log's frames changed although nothing was committed."""
        # Each commit changes the index. So if the index has changed, there was a commit.
        if self._last_write is None or self._last_write[0] != index:
            return
        state = index, self._log_change_time()
        # A transaction that was rolled back also changes the file, but only after the last frame.
        # If a frame differs, another program has overwritten it.
        if state != self._last_write and not self._is_whole(index):
            self._refuse(self._log_path)
        self._last_write = state

    def record_write(self) -> None:
        """Remember the state of the log, right after a transaction."""
        self._last_write = self._read_index(), self._log_change_time()

    def can_be_saved(self) -> bool:
        """Return whether SQLite may copy the log's pages into the file, as they are undamaged.

        If damage was found before, check every frame again. If all frames are right, the pages may
        be copied, and nothing is lost.
        """
        if self._damaged_file is None:
            return True
        index = self._read_index()
        return not self._is_index_cut() and (index is None or self._is_whole(index))

    def _log_change_time(self) -> int:
        """Return the time of the log file's last change, in ns."""
        return os.fstat(self._log.fileno()).st_mtime_ns

    def _refuse(self, file: Path) -> NoReturn:
        """Remember that a file is damaged. Raise StoreUnavailable with advice for the operator."""
        self._damaged_file = file
        advice = (
            "Stop the server: it saves what the log still has. Then compare with a backup."
            if file == self._log_path
            else "Restart the server: it reads what it wrote from the log."
        )
        raise StoreUnavailable(
            f"{file} was cut or overwritten by another program; nothing was written. {advice}"
        )

    def _find_damage(self, index: Index) -> Path | None:
        """Return the path of the log or the index if it is damaged, None if both look right.

        Check only the salt and the last frame, because this runs before each transaction.
        """
        if not index.frame_count:
            return None
        if index.copied_count > index.frame_count:
            return self._index_path
        # Read what the log itself has: its salt, and the header of the last frame.
        last = index.frame_count - 1
        page, frame_salt, *checksum = self._read_frame_header(index, last)
        log_salt, *_ = self._read_log_header()
        # The index says how long the log must be, and which salt and checksum it must have.
        is_log_whole = (
            os.fstat(self._log.fileno()).st_size >= index.offset(index.frame_count)
            and frame_salt == log_salt == index.salt
            and tuple(checksum) == index.checksum
        )
        if not is_log_whole:
            return self._log_path
        # The index must have the page number of the frame.
        return None if page == self._read_entry(last) else self._index_path

    def _is_index_cut(self) -> bool:
        """Return whether the index is shorter than at an earlier check, and remember its size."""
        size = os.fstat(self._index.fileno()).st_size
        self._largest_index = max(self._largest_index, size)
        return size < self._largest_index

    def _is_whole(self, index: Index) -> bool:
        """Return whether index and log agree on every frame, and every checksum is right.

        The checksum of a frame is computed from the checksum of the frame before and the frame. For
        the first frame, it is the checksum of the log's header instead. If that header is damaged,
        the checksum of the first frame is not verified.
        """
        if index.copied_count > index.frame_count:
            return False
        log_salt, *header_checksum = self._read_log_header()
        previous = tuple(header_checksum) if log_salt == index.salt else None
        for frame in range(index.frame_count):
            data = os.pread(self._log.fileno(), index.frame_bytes, index.offset(frame))
            if len(data) < index.frame_bytes:
                return False
            # The frame must be of this log, and have the page that the index has for it.
            page, salt, *checksum = FRAME_HEADER.unpack_from(data)
            if salt != index.salt or page != self._read_entry(frame):
                return False
            checked_data = data[:CHECKED_BYTES] + data[FRAME_HEADER.size :]
            if previous is not None and add_to_checksum(previous, checked_data) != tuple(checksum):
                return False
            previous = tuple(checksum)
        return not index.frame_count or previous == index.checksum

    def _read_entry(self, frame: int) -> int:
        """Return the page number that the index has for a frame.

        The first block of the index has fewer entries than the others, because of the header.
        """
        block, entry = divmod(frame + HEADER_ENTRIES, ENTRIES_PER_BLOCK)
        offset = block * INDEX_BLOCK_BYTES + entry * ENTRY_BYTES
        data = os.pread(self._index.fileno(), ENTRY_BYTES, offset)
        return int.from_bytes(data, sys.byteorder)

    def _read_log_header(self) -> tuple[Any, ...]:
        """Return the salt and the two numbers of the checksum in the log's header."""
        return _unpack(LOG_HEADER, os.pread(self._log.fileno(), LOG_HEADER.size, 0))

    def _read_frame_header(self, index: Index, frame: int) -> tuple[Any, ...]:
        """Return a frame's page number, its salt and the two numbers of its checksum."""
        data = os.pread(self._log.fileno(), FRAME_HEADER.size, index.offset(frame))
        return _unpack(FRAME_HEADER, data)

    def _read_index(self) -> Index | None:
        """Return the state of the log from the index's header, or None if it cannot be known.

        SQLite writes the header twice. If the two copies differ, SQLite is writing them. A flag
        shows whether SQLite has filled the index.
        """
        # The start has two copies of the header, and then the number of copied frames.
        start = os.pread(self._index.fileno(), INDEX_START, 0)
        header, copy = start[: INDEX_HEADER.size], start[INDEX_HEADER.size : -4]
        if len(start) < INDEX_START or header != copy:
            return None
        is_filled, page_size, frame_count, *checksum, salt = INDEX_HEADER.unpack(header)
        if not is_filled:
            return None
        return Index(
            page_bytes=LARGEST_PAGE if page_size == 1 else page_size,
            frame_count=frame_count,
            checksum=(checksum[0], checksum[1]),
            salt=salt,
            copied_count=int.from_bytes(start[-4:], sys.byteorder),
        )


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
        """Raise StoreUnavailable if the log is known to be damaged, or would make SQLite crash.

        SQLite crashes if the log's index was cut.
        """
        if self._log is not None:
            self._log.check_before_read()

    def can_save_log(self) -> bool:
        """Return whether a connection that closes may copy the log into the file."""
        return self._log is None or self._log.can_be_saved()

    def check_before_read(self) -> None:
        """Raise StoreUnavailable if the file or the log is damaged."""
        self.check_whole()
        self.check_log()

    def check_before_transaction(self) -> None:
        """Raise StoreUnavailable if file or log is damaged, or the path has another file."""
        if file_identity(self._path) != self._identity:
            raise StoreUnavailable(
                f"{self._path} is not the file that was opened; nothing was written."
            )
        self.check_before_read()

    def check_whole(self) -> None:
        """Raise StoreUnavailable if the file was cut or overwritten.

        If the file looks damaged, check it again later, because another process may be copying
        pages.
        """
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


def add_to_checksum(checksum: Checksum, data: bytes) -> Checksum:
    """Return SQLite's running checksum after adding `data`, whose length is a multiple of 8."""
    first, second = checksum
    for even, odd in struct.iter_unpack("=2I", data):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and the inode number of the file at a path, or None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _unpack(layout: struct.Struct, data: bytes) -> tuple[Any, ...]:
    """Return the values of a layout. Missing bytes, of a file that was cut, count as zero."""
    return layout.unpack(data.ljust(layout.size, b"\0"))
