"""A backup taken during writes has everything acknowledged, and restores into either store."""

import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli import main
from contextrender_bridge.runtime.identities import Identities
from contextrender_bridge.store.backup import back_up, restore
from contextrender_bridge.store.copying import TABLES
from contextrender_bridge.store.sqlite import SqliteStore

from tests.support.local import local_service
from tests.support.postgres import new_database


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = ""
    if request.param == "postgres":
        name = new_database(request.getfixturevalue("postgres"))
    use(monkeypatch, name)
    return name


def use(monkeypatch: pytest.MonkeyPatch, database: str) -> None:
    monkeypatch.setenv("CONTEXTRENDER_DATABASE", database)


def message(number: int) -> Json:
    return {"role": "user", "content": f"Item ITEM_{number}, please."}


@pytest.mark.usefixtures("database")
def test_backup_under_load_restores_into_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    acknowledged, ended = [0] * 3, threading.Event()

    def write(writer: int) -> None:
        while not ended.is_set():
            grown = [message(number) for number in range(acknowledged[writer] + 1)]
            first("sync", session=f"w{writer}", messages=grown)
            acknowledged[writer] += 1

    with local_service(data) as first, ThreadPoolExecutor(3) as threads:
        first("sync", session="done", messages=[message(number) for number in range(30)])
        before = first.branches("done")
        writing = [threads.submit(write, writer) for writer in range(3)]
        while min(acknowledged) < 3:
            assert not any(future.done() for future in writing)
        at_least = list(acknowledged)
        counts = back_up(first.runtime.store, data, backup)
        at_most = [count + 1 for count in acknowledged]
        ended.set()
        [future.result() for future in writing]
        after = [first.branches(f"w{writer}")[0]["messages"] for writer in range(3)]
    assert counts["users"] == 1 and counts["nodes"] > 40

    restored_data = tmp_path / "restored"
    if os.environ["CONTEXTRENDER_DATABASE"]:
        use(monkeypatch, new_database(request.getfixturevalue("postgres")))
    assert main(["restore", str(backup), "--data", str(restored_data)]) == 0
    assert main(["restore", str(backup), "--data", str(restored_data)]) == 1
    with local_service(restored_data, first.token) as second:  # the token is still valid
        assert second.branches("done") == before
        for writer in range(3):
            messages = second.branches(f"w{writer}")[0]["messages"]
            assert at_least[writer] <= len(messages) <= at_most[writer]
            assert messages == after[writer][: len(messages)]
            second("sync", session=f"w{writer}", messages=after[writer])


@pytest.fixture
def backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use(monkeypatch, "")
    data = tmp_path / "data"
    with local_service(data) as service:
        service("sync", session="s", messages=[message(1)])
    assert main(["backup", str(tmp_path / "backup"), "--data", str(data)]) == 0
    return tmp_path / "backup"


@pytest.mark.slow
def test_backup_moves_store_to_database_and_back(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: str
) -> None:
    use(monkeypatch, new_database(postgres))
    moved, second_backup, home = (tmp_path / name for name in ("moved", "back", "home"))
    assert main(["restore", str(backup), "--data", str(moved)]) == 0
    assert main(["backup", str(second_backup), "--data", str(moved)]) == 0
    use(monkeypatch, "")
    assert main(["restore", str(second_backup), "--data", str(home)]) == 0
    before, after = SqliteStore(backup / "store.db"), SqliteStore(home / "store.db")
    for table in tables(before):
        rows = f"SELECT * FROM {table}"
        assert sorted(map(comparable_values, after.read(rows))) == sorted(
            map(comparable_values, before.read(rows))
        )
    before.close()
    after.close()
    with local_service(home) as moved_back:
        assert moved_back.branches("s")[0]["messages"] == [message(1)]


def comparable_values(row: tuple[Any, ...]) -> list[str]:
    """Return comparable values, JSON without spaces."""
    return [str(value).replace(" ", "") for value in row]


def tables(store: SqliteStore) -> set[str]:
    """Return the tables whose rows are copied unchanged."""
    rows = store.read("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name for (name,) in rows} - {"meta", "kinds", "sqlite_sequence"}


def test_backup_copies_every_column(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    laid_out = Identities(store)._table.metadata.tables
    assert tables(store) == set(TABLES)
    for table in tables(store):
        columns = [row[1] for row in store.read(f"PRAGMA table_info({table})")]
        assert columns == list(TABLES[table])
        assert table not in laid_out or columns == list(laid_out[table].columns.keys())
    assert laid_out.keys() <= tables(store)
    store.close()


def test_backup_is_private_and_refuses_used_folder(backup: Path, tmp_path: Path) -> None:
    assert backup.stat().st_mode & 0o777 == 0o700
    assert {file.name for file in backup.iterdir()} == {"store.db", "jwt_secret", "audit.log"}
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in backup.iterdir())
    assert main(["backup", str(backup), "--data", str(tmp_path / "data")]) == 1
    assert main(["backup", str(tmp_path / "new"), "--data", str(tmp_path / "none")]) == 1
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("UPDATE meta SET value = '99' WHERE name = 'layout'", "99"),
        ("DROP TABLE meta", r"whole|read"),
        ("", r"whole|read"),
    ],
)
def test_damaged_or_newer_backup_is_refused(
    backup: Path, tmp_path: Path, statement: str, error: str
) -> None:
    file = backup / "store.db"
    if statement:
        with closing(sqlite3.connect(file)) as store:
            store.execute(statement)
            store.commit()
    else:
        os.truncate(file, file.stat().st_size // 2)
    with pytest.raises(CommandError, match=error):
        restore(backup, tmp_path / "to")
    assert not list((tmp_path / "to").glob("store*"))


def test_folder_without_backup_is_refused(tmp_path: Path) -> None:
    assert main(["restore", str(tmp_path), "--data", str(tmp_path / "to")]) == 1
    assert not (tmp_path / "to").exists()
