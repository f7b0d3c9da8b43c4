"""A store copied to the other kind and back holds the same, users included."""

import tarfile
from pathlib import Path

import pytest
from contextrender_bridge.cli import main
from contextrender_bridge.errors import CommandError
from contextrender_bridge.paths import app_dir
from contextrender_bridge.server.accounts import Accounts
from contextrender_bridge.server.runtime import Runtime

from graph.runtime import copying
from graph.runtime.copying import NotTheSame, _digest, copy_store
from graph.runtime.opening import open_named
from graph.runtime.snapshot import as_it_is
from graph.runtime.store import Store


@pytest.fixture
def original(tmp_path: Path, store: Store) -> Store:
    """The sessions of two users, in a file; `store` has the app loaded."""
    with tarfile.open(Path(__file__).with_name("layout-1.tgz")) as archive:
        archive.extractall(tmp_path / "original", filter="data")
    return open_named(f"sqlite:{tmp_path / 'original'}", new=False)


def test_there_and_back_it_is_the_same(original: Store, store: Store, tmp_path: Path) -> None:
    counts = copy_store(original, store)
    assert counts["nodes"] > 50 and counts["edges"] > 80 and counts["users"] == 2
    assert copy_store(original, store) == counts
    back = open_named(f"sqlite:{tmp_path / 'back'}", new=True)
    assert copy_store(store, back) == counts
    for table in copying.COLUMNS:
        assert _digest(as_it_is(back), table) == _digest(as_it_is(original), table)
    for each in (original, back):
        each.close()


def test_interrupted_it_goes_on(
    original: Store, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(copying, "PAGE", 7)
        patch.setattr(copying, "_digest", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            copy_store(original, store)
    assert copy_store(original, store)["users"] == 2
    original.close()


def test_what_is_in_the_target_already_is_no_copy(original: Store, store: Store) -> None:
    copy_store(original, store)
    with store.transaction() as cursor:
        cursor.execute("UPDATE nodes SET rev = rev + 1")
    with pytest.raises(NotTheSame, match="nodes"):
        copy_store(original, store)
    original.close()


def test_the_command_says_what_it_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], original: Store
) -> None:
    original.close()
    places = ["--from", f"sqlite:{tmp_path / 'original'}", "--to", f"sqlite:{tmp_path / 'copy'}"]
    assert main(["copy", *places]) == 0
    assert "2 users" in capsys.readouterr().out
    assert main(["copy", "--from", f"sqlite:{tmp_path / 'none'}", *places[2:]]) == 1


@pytest.mark.parametrize("name", ["mysql://x", "sqlite:", "folder"])
def test_what_is_no_store_is_told(name: str) -> None:
    with pytest.raises(CommandError, match="sqlite:DIR"):
        open_named(name, new=True)


def test_a_token_that_was_taken_back_is_not_good_in_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONTEXTRENDER_DATABASE", raising=False)
    monkeypatch.setenv("CONTEXTRENDER_JWT_SECRET", "of both folders, and long enough")
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    runtime = Runtime(app_dir(), folders[0])
    accounts = Accounts(runtime, folders[0])
    before = accounts.local_token()
    accounts.revoke(accounts.named("local"))
    after = accounts.local_token()
    copy = open_named(f"sqlite:{folders[1]}", new=True)
    copy_store(runtime.store, copy)
    copy.close()
    runtime.close()
    runtime = Runtime(app_dir(), folders[1])
    accounts = Accounts(runtime, folders[1])
    assert accounts.caller(before) is None
    assert accounts.caller(after) is not None
    runtime.close()
