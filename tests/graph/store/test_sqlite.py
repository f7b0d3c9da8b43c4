"""If the write-ahead log of an open store is removed or damaged, the store writes nothing more and
loses no write that is still on the disk.
"""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from contextrender_bridge.store.sqlite import SqliteStore
from contextrender_bridge.store.writes import StoreUnavailable


@pytest.mark.parametrize("ends", [("-wal",), ("-shm",), ("-wal", "-shm")])
def test_removed_log_is_detected(tmp_path: Path, ends: tuple[str, ...]) -> None:
    file = tmp_path / "store.db"
    with closing(SqliteStore(file)) as store:
        assert store.claim("before", 60)
        for end in ends:
            file.with_name(file.name + end).unlink()
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="removed by another program"):
                store.claim("after", 60)
        with pytest.raises(StoreUnavailable):
            store.probe()
    with closing(SqliteStore(file)) as reopened:
        assert not reopened.claim("before", 60)
        assert reopened.claim("after", 60)


def test_last_connection_removes_the_log(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    with closing(SqliteStore(file)) as store, closing(SqliteStore(file)) as other:
        for connection in (store, other):
            with pytest.raises(StoreUnavailable):
                connection.read("SELECT nothing FROM nowhere")
        assert not file.with_name("store.db-wal").exists()
        assert store.claim("work", 60)
        assert not other.claim("work", 60)


def cut(part: float) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        with file.open("r+b") as handle:
            handle.truncate(int(file.stat().st_size * part))

    return damage


def overwrite(start: int, length: int) -> Callable[[Path], None]:
    """Return a function that overwrites this many bytes; a negative start counts from the end."""

    def damage(file: Path) -> None:
        with file.open("r+b") as handle:
            handle.seek(start, 2 if start < 0 else 0)
            handle.write(random.Random(length).randbytes(length))

    return damage


FRAME = 24 + 8_192
BEFORE = [f"before {number}" for number in range(20)]


@pytest.mark.parametrize("end", ["-wal", "-shm"])
@pytest.mark.parametrize(
    ("damage", "is_saved"),
    [
        (cut(0), False),
        (cut(0.5), False),
        (cut(0.99), False),
        (overwrite(0, 32), True),
        (overwrite(17, 1), True),
        (overwrite(-FRAME, FRAME), False),
        (overwrite(96, 24), False),
        (overwrite(136, 30_000), False),
    ],
    ids=["empty", "half", "last bytes", "header", "salt", "last frame", "marks", "pages"],
)
def test_damaged_log_is_detected_and_intact_part_saved(
    tmp_path: Path, end: str, damage: Callable[[Path], None], is_saved: bool
) -> None:
    file = tmp_path / "store.db"
    with closing(SqliteStore(file)) as store:
        for work in BEFORE:
            assert store.claim(work, 60)
        damage(file.with_name(file.name + end))
        try:
            acknowledged = ["after"] if store.claim("after", 60) else []
        except StoreUnavailable as failure:
            acknowledged = []
            assert "by another program" in str(failure)
            for call in (store.probe, lambda: store.read("SELECT 1")):
                with pytest.raises(StoreUnavailable, match="by another program"):
                    call()
        # The log has everything, because SQLite rebuilds an overwritten index.
        assert not acknowledged or end == "-shm"
    with closing(SqliteStore(file)) as reopened:
        works = [work for work in [*BEFORE, *acknowledged] if reopened.claim(work, 60)]
        if end == "-shm" or is_saved:
            assert not works
        assert works == BEFORE[len(BEFORE) - len(works) :]
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
