"""A log that is taken away under a store: no more is written, and what was written lasts."""

from contextlib import closing
from pathlib import Path

import pytest
from contextrender_bridge.store.sqlite import SqliteStore
from contextrender_bridge.store.writes import StoreUnavailable


@pytest.mark.parametrize("ends", [("-wal",), ("-shm",), ("-wal", "-shm")])
def test_a_log_that_is_removed_is_noticed(tmp_path: Path, ends: tuple[str, ...]) -> None:
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
    with closing(SqliteStore(file)) as again:
        assert not again.claim("before", 60)
        assert again.claim("after", 60)


def test_the_log_of_the_last_connection_goes_with_it(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    with closing(SqliteStore(file)) as store, closing(SqliteStore(file)) as other:
        for one in (store, other):
            with pytest.raises(StoreUnavailable):
                one.read("SELECT nothing FROM nowhere")
        assert not file.with_name("store.db-wal").exists()
        assert store.claim("work", 60)
        assert not other.claim("work", 60)
