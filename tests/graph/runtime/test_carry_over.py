"""A data folder of layout 1, made by the version before, opens and answers as it did.

`layout-1.tgz` holds it, with two users' sessions and, in `answers.json`, what was answered then.
"""

import json
import sqlite3
import tarfile
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from contextrender_bridge.paths import app_dir
from contextrender_bridge.server.accounts import Accounts
from contextrender_bridge.server.runtime import Runtime
from contextrender_bridge.wire import Json

from graph.runtime import carry_over


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with tarfile.open(Path(__file__).with_name("layout-1.tgz")) as archive:
        archive.extractall(tmp_path / "data", filter="data")
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a folder is carried over at start."""
    monkeypatch.delenv("CONTEXTRENDER_DATABASE", raising=False)


def answers(runtime: Runtime, told: Json) -> Json:
    """What the walkers answer now to the calls whose answers were told."""
    found: Json = {}
    for name, calls in told.items():
        found[name] = {}
        for call in calls:
            walker, _, fields = call.partition(" ")
            given = json.loads(fields)
            root = told_root(runtime, name)
            reply = json.loads(runtime.call(walker, partial(dict, given), root))["reports"][0]
            reply.pop("usage", None)
            found[name][call] = reply
    return found


def told_root(runtime: Runtime, name: str) -> str:
    accounts = Accounts(runtime, Path(runtime.store.place).parent)
    caller = accounts.caller(accounts.token(str(accounts.find(name))))
    assert caller is not None
    return caller.root


def known(data: Path) -> Json:
    told: Json = json.loads((data / "answers.json").read_text())
    told.pop("roots")
    return told


def kept(told: Any, now: Any) -> Any:
    """What was told then, as it is told now: replies may have got new fields and other words."""
    if isinstance(told, dict):
        return {name: kept(value, now[name]) for name, value in told.items() if name != "reason"}
    if isinstance(told, list):
        return [kept(*pair) for pair in zip(told, now, strict=True)]
    return now


def known_words(told: Any) -> Any:
    return kept(told, told)


def test_it_answers_as_before_and_keeps_the_old_files(data: Path) -> None:
    runtime = Runtime(app_dir(), data)
    told = known(data)
    assert kept(told, answers(runtime, told)) == known_words(told)
    assert Accounts(runtime, data).login("bob", "a good password")
    runtime.close()
    with closing(sqlite3.connect(data / "layout-1" / "graph.db")) as backup:
        assert backup.execute("SELECT count(*) FROM anchors").fetchone()[0] > 100
    assert (data / "layout-1" / "users.db").exists()
    assert not (data / "graph.db").exists()


def test_it_goes_on_where_it_was(data: Path) -> None:
    runtime = Runtime(app_dir(), data)
    root = told_root(runtime, "local")

    def call(walker: str, **fields: Any) -> Json:
        reply: Json = json.loads(runtime.call(walker, lambda: fields, root))["reports"][0]
        return reply

    export = call("export_session", session="run")
    messages = [*export["branches"][0]["messages"], {"role": "user", "content": "And now?"}]
    assert call("sync", session="run", messages=messages)["recorded"] == 1
    assert call("sync", session="run", messages=messages)["recorded"] == 0
    call("delete_session", session="run")
    call("delete_session", session="unusual")
    for table in ("edges", "nodes"):
        left = runtime.store.read(f"SELECT count(*) FROM {table} WHERE owner = ?", (UUID(root),))
        assert left == [(table == "nodes",)]  # the root
    runtime.close()


@pytest.mark.parametrize("name", ["_copy_users", "_copy_aside"])
def test_interrupted_it_starts_again(
    data: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(carry_over, name, lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Runtime(app_dir(), data)
    told = known(data)
    runtime = Runtime(app_dir(), data)
    assert kept(told, answers(runtime, told)) == known_words(told)
    runtime.close()


def test_interrupted_before_the_old_files_moved_it_only_moves_them(data: Path) -> None:
    old = (data / "graph.db").read_bytes()
    Runtime(app_dir(), data).close()
    (data / "graph.db").write_bytes(old)
    runtime = Runtime(app_dir(), data)
    assert kept(known(data), answers(runtime, known(data))) == known_words(known(data))
    assert not (data / "graph.db").exists()
    runtime.close()
