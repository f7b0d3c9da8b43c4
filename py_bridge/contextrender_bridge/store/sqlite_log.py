"""The write-ahead log of a SQLite file and the index of that log: another program may damage them.

The formats are SQLite's own: https://www.sqlite.org/walformat.html.
"""

import os
import struct
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from contextrender_bridge.store.writes import StoreUnavailable

INDEX_HEADER: Final = struct.Struct("=12xBxHI4x2I8s8x")
"""Flag of use, page size, number of frames, the last frame's checksum, salt. The index begins with
two copies of it, then the number of frames that the database has already."""
INDEX_START: Final = 2 * INDEX_HEADER.size + 4
INDEX_BLOCK, ENTRIES, INDEX_HEAD = 32_768, 4_096, 34
"""Each block of the index begins with the page numbers of so many frames, four bytes each. In the
first block the index's head takes the place of 34 of them."""
LOG_HEADER: Final = struct.Struct(">16x8s2I")
"""The log's salt and the checksum of its header."""
FRAME_HEADER: Final = struct.Struct(">I4x8s2I")
"""A frame's page number, salt and checksum. The frame's page follows."""
CHECKED_BYTES: Final = 8
"""The bytes of a frame's header that its checksum covers."""
LARGEST_PAGE: Final = 65_536
"""The index has 1 for it: it has two bytes for a page size."""

type Checksum = tuple[int, int]


class Index(NamedTuple):
    """The state of the log according to its index."""

    page_size: int
    frames: int
    checksum: Checksum
    salt: bytes
    copied: int
    """The frames whose pages the database has already."""

    def offset(self, frame: int) -> int:
        """Return where a frame begins in the log; the first is frame 0."""
        return LOG_HEADER.size + frame * (FRAME_HEADER.size + self.page_size)


class WriteAheadLog:
    """The log and its index, as a process with connections to the database found them.

    Both stay open until `close`: to close any handle to the index drops SQLite's locks on it.
    """

    def __init__(self, database: Path) -> None:
        self._log_path, self._index_path = (
            database.with_name(database.name + end) for end in ("-wal", "-shm")
        )
        self._log = self._log_path.open("rb", buffering=0)
        self._index = self._index_path.open("rb", buffering=0)
        self._identities = file_identity(self._log_path), file_identity(self._index_path)
        self._index_size = 0
        self._last_write: tuple[Index | None, int] | None = None
        self._damage: Path | None = None
        """The file that was found damaged: it stays so until this process ends."""

    def close(self) -> None:
        """Close both files. No connection of this process may be open."""
        self._log.close()
        self._index.close()

    def check_before_read(self) -> None:
        """Raise StoreUnavailable if damage is known, or where SQLite would crash."""
        if self._damage is None and self._is_index_cut():
            self._damage = self._index_path
        if self._damage is not None:
            self._refuse(self._damage)

    def check_before_write(self) -> None:
        """Raise StoreUnavailable if another program removed, cut or overwrote either file.

        The caller is in a write transaction: no other process writes.
        """
        if (file_identity(self._log_path), file_identity(self._index_path)) != self._identities:
            raise StoreUnavailable(
                f"{self._log_path} or -shm was removed by another program; nothing was written. "
                "Stop the server: it saves what it wrote as it ends."
            )
        self.check_before_read()
        index = self._read_index()
        if index is None:
            return
        damage = self._find_damage(index)
        if damage is not None:
            self._refuse(damage)
        state = index, os.fstat(self._log.fileno()).st_mtime_ns
        if self._last_write is not None and self._last_write[0] == index:
            # A transaction that is rolled back may leave frames behind the last.
            if self._last_write != state and not self._is_whole(index):
                self._refuse(self._log_path)
            self._last_write = state

    def record_write(self) -> None:
        """Remember the log as a transaction that just ended left it."""
        self._last_write = self._read_index(), os.fstat(self._log.fileno()).st_mtime_ns

    def can_be_saved(self) -> bool:
        """Return whether SQLite can copy the log into the database: index and frames are whole."""
        if self._damage is None:
            return True
        index = self._read_index()
        return not self._is_index_cut() and (index is None or self._is_whole(index))

    def _refuse(self, damage: Path) -> NoReturn:
        self._damage = damage
        advice = (
            "Stop the server: it saves what the log still has. Then compare with a backup."
            if damage == self._log_path
            else "Restart the server: it reads what it wrote from the log."
        )
        raise StoreUnavailable(
            f"{damage} was cut or overwritten by another program; nothing was written. {advice}"
        )

    def _find_damage(self, index: Index) -> Path | None:
        """Return which file does not have what the index says about its last frame, if any."""
        if not index.frames:
            return None
        if index.copied > index.frames:
            return self._index_path
        last = index.frames - 1
        page, salt, *checksum = self._read_frame(index, last)
        is_log_whole = (
            os.fstat(self._log.fileno()).st_size >= index.offset(index.frames)
            and salt == self._read_log_header()[0] == index.salt
            and tuple(checksum) == index.checksum
        )
        if not is_log_whole:
            return self._log_path
        return None if page == self._read_entry(last) else self._index_path

    def _is_index_cut(self) -> bool:
        """Return whether the index is shorter than before: SQLite would crash as it reads it."""
        size = os.fstat(self._index.fileno()).st_size
        self._index_size = max(self._index_size, size)
        return size < self._index_size

    def _is_whole(self, index: Index) -> bool:
        """Return whether index and log agree on every frame, and every page has its checksum.

        The first page is not verified if the log's header is damaged: its checksum begins there.
        """
        if index.copied > index.frames:
            return False
        salt, *header_sum = self._read_log_header()
        before = (header_sum[0], header_sum[1]) if salt == index.salt else None
        for frame in range(index.frames):
            data = os.pread(
                self._log.fileno(), FRAME_HEADER.size + index.page_size, index.offset(frame)
            )
            if len(data) < FRAME_HEADER.size + index.page_size:
                return False
            page, salt, first, second = FRAME_HEADER.unpack_from(data)
            if salt != index.salt or page != self._read_entry(frame):
                return False
            if before is not None:
                before = add_to_checksum(before, data[:CHECKED_BYTES])
                before = add_to_checksum(before, data[FRAME_HEADER.size :])
                if before != (first, second):
                    return False
            before = first, second
        return not index.frames or before == index.checksum

    def _read_entry(self, frame: int) -> int:
        """Return the page number of a frame, from the index."""
        block, entry = divmod(frame + INDEX_HEAD, ENTRIES)
        data = os.pread(self._index.fileno(), 4, block * INDEX_BLOCK + 4 * entry)
        return int.from_bytes(data, sys.byteorder)

    def _read_log_header(self) -> tuple[Any, ...]:
        return _unpack(LOG_HEADER, os.pread(self._log.fileno(), LOG_HEADER.size, 0))

    def _read_frame(self, index: Index, frame: int) -> tuple[Any, ...]:
        data = os.pread(self._log.fileno(), FRAME_HEADER.size, index.offset(frame))
        return _unpack(FRAME_HEADER, data)

    def _read_index(self) -> Index | None:
        """Return what the index says; None if its copies differ or SQLite has not filled it."""
        start = os.pread(self._index.fileno(), INDEX_START, 0)
        header, copy = start[: INDEX_HEADER.size], start[INDEX_HEADER.size : -4]
        if len(start) < INDEX_START or header != copy:
            return None
        is_filled, page_size, frames, first, second, salt = INDEX_HEADER.unpack(header)
        if not is_filled:
            return None
        copied = int.from_bytes(start[-4:], sys.byteorder)
        size = LARGEST_PAGE if page_size == 1 else page_size
        return Index(size, frames, (first, second), salt, copied)


def add_to_checksum(checksum: Checksum, data: bytes) -> Checksum:
    """Return SQLite's running checksum after more bytes, a multiple of eight."""
    first, second = checksum
    for even, odd in struct.iter_unpack("=2I", data):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another of its name; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _unpack(form: struct.Struct, data: bytes) -> tuple[Any, ...]:
    """Return the values; those of a file that is cut are zero."""
    return form.unpack(data.ljust(form.size, b"\0"))
