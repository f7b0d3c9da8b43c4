"""Whether a store's file is the one that was opened, and whole: a write to any other is lost."""

import os
import threading
import time
from pathlib import Path
from typing import ClassVar, Final, Self

from contextrender_bridge.store.writes import StoreUnavailable

MAGIC: Final = b"SQLite format 3\0"
HEAD: Final = 100
NUMBERS: Final = ((16, 2), (24, 4), (28, 4))
"""Where the head tells a page's size, how often it changed and how many pages there are."""
CHECKPOINT_SECONDS: Final = (0.02, 0.1, 0.4)
"""Another process folds its log in: the first page tells of pages that follow in a moment."""


class SqliteFile:
    """One file of this process, held open until the last who opened it closes: closing any handle
    to it drops the locks that SQLite's own have, and another process could damage it."""

    _of_places: ClassVar[dict[tuple[int, int], Self]] = {}
    _guard: ClassVar = threading.Lock()

    def __init__(self, path: Path, place: tuple[int, int]) -> None:
        """Use `opened`."""
        self._path, self._place = path, place
        self._handle = path.open("rb", buffering=0)
        self._reading = threading.Lock()
        self._holders = 0
        self._page = self._counter = 0
        self._size = 0
        self._logs: list[tuple[int, int] | None] = []
        self._connections = 0
        self.changing = threading.Lock()
        """Held while a connection is opened or closed: the last one takes the log away."""

    @classmethod
    def opened(cls, path: Path) -> Self:
        """That of a path. Raises StoreUnavailable where there is none."""
        with cls._guard:
            place = _place(path)
            try:
                if place is None:
                    raise FileNotFoundError(2, os.strerror(2))
                found = cls._of_places.get(place) or cls(path, place)
            except OSError as failure:
                raise StoreUnavailable(f"{path} cannot be opened: {failure.strerror}.") from failure
            cls._of_places[place] = found
            found._holders += 1
            return found

    def close(self) -> None:
        """Once for each `opened`."""
        with self._guard:
            self._holders -= 1
            if not self._holders:
                del self._of_places[self._place]
                self._handle.close()

    def count(self, opened: int) -> None:
        """So many more connections are open than before."""
        self._connections += opened
        if not self._connections:
            self._logs = []

    def check_logs(self) -> None:
        """Within a transaction: raises StoreUnavailable where its log was taken from under it."""
        logs = [_place(self._path.with_name(self._path.name + end)) for end in ("-wal", "-shm")]
        self._logs = self._logs or logs
        if logs != self._logs:
            raise StoreUnavailable(
                f"{self._path}-wal or -shm was removed by another program; nothing was written. "
                "Stop the server: it saves what it wrote as it ends."
            )

    def check_whole(self, placed: bool = False) -> None:
        """Raises StoreUnavailable where it was cut or overwritten; if it is to be `placed`, also
        where another is in its place, or none."""
        if placed and _place(self._path) != self._place:
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
        """By its head and its size. Pages that a killed process or a full disk kept out of the file
        are in the log, so a file may be shorter than its head says, but not than it was."""
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
    """An empty file for its owner alone; one that is there is not opened (`SqliteFile`)."""
    try:
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as failure:
        raise StoreUnavailable(f"{path} cannot be opened: {failure.strerror}.") from failure


def _place(path: Path) -> tuple[int, int] | None:
    """What tells a file from another in its place; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
