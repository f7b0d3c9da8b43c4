"""Liveness and readiness on disks that are really full, read-only or damaged."""

import asyncio
import os
import secrets
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from contextrender_bridge.base.errors import NotReady
from contextrender_bridge.base.paths import make_private
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.server import build_app
from contextrender_bridge.server.watching import readiness as looks
from contextrender_bridge.server.watching.readiness import Readiness
from contextrender_bridge.store.sqlite import SqliteStore

from tests.api.client import error_of as error
from tests.server.servers import Server, ask, in_process, running_server, serve_command
from tests.support.command import contextrender
from tests.support.programs import free_port, serving_program
from tests.support.provider_double import provider
from tests.support.transcripts import agent_run
from tests.support.waiting import wait_until


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a small real disk; skip the test if mounting is not allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command).returncode:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(file: Path) -> None:
    """Fill the disk of a file completely."""
    with file.open("ab", buffering=0) as ballast:
        for size in (2**20, 2**12, 1):
            with suppress(OSError):
                while True:
                    ballast.write(b"\1" * size)


def request_readiness(url: str) -> httpx.Response:
    return httpx.get(f"{url}/healthz/ready", timeout=20)


def wait_for_status(url: str, status: int) -> httpx.Response:
    responses: list[httpx.Response] = []

    def has_status() -> bool:
        responses.append(request_readiness(url))
        return responses[-1].status_code == status

    wait_until(has_status, explain=lambda: responses[-1].text)
    assert httpx.get(f"{url}/healthz/live").json() == {"status": "ok"}
    return responses[-1]


def sync(server: Server, session: str, text: str = "hello") -> httpx.Response:
    with server.client() as client:
        message = {"role": "user", "content": text}
        return client.post("/walker/sync", json={"session": session, "messages": [message]})


@pytest.mark.slow
def test_full_disk_is_503_until_freed(disk: Path) -> None:
    data, ballast = disk / "data", disk / "ballast"
    with running_server(data, CONTEXTRENDER_MIN_FREE_DISK_MB="1") as server:
        assert sync(server, "before").status_code == 200
        fill(ballast)
        error(sync(server, "during", "x" * 100_000), 503, "storage_unavailable")
        error_fields = error(wait_for_status(server.url, 503), 503, "not_ready")
        assert "MB free" in error_fields["message"]
        with server.client() as client:
            assert client.post("/walker/export_session", json={"session": "before"}).is_success
        ballast.unlink()
        wait_for_status(server.url, 200)
        assert sync(server, "after").status_code == 200
        assert "Traceback" not in server.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "content", [b"no database at all " * 300, b"SQLite format 3\0" + b"\xff" * 4000]
)
def test_damaged_file_at_start_is_not_ready(tmp_path: Path, content: bytes) -> None:
    data = tmp_path / "in" / "data"
    data.mkdir(parents=True)
    (data / "store.db").write_bytes(content)
    port = free_port()
    url, log = f"http://127.0.0.1:{port}", tmp_path / "printed.log"
    environment = {**os.environ, "CONTEXTRENDER_MIN_FREE_DISK_MB": "1"}
    with serving_program(
        serve_command(data, "--port", str(port)), environment, f"{url}/healthz/live", tmp_path
    ):
        wait_until(lambda: "trying on" in log.read_text())
        assert "Traceback" not in log.read_text()
        assert "damaged" in error(request_readiness(url), 503, "not_ready")["message"]
        assert (data / "store.db").read_bytes() == content
        process = contextrender("user", "list", "--data", data)
        assert (process.returncode, process.stderr.count("\n")) == (1, 1)
        assert "damaged" in process.stderr
        (data / "store.db").unlink()
        wait_for_status(url, 200)


def checkpoint(file: Path) -> bytes:
    """Checkpoint the write-ahead log into the file and return its bytes."""
    with closing(sqlite3.connect(file)) as other:
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    return file.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("accident", ["gone", "emptied", "cut", "another's", "older"])
def test_truncated_or_overwritten_database_refuses_writes(tmp_path: Path, accident: str) -> None:
    data = tmp_path / "in" / "data"
    SqliteStore(make_private(tmp_path / "other") / "store.db").close()
    with running_server(data, CONTEXTRENDER_MIN_FREE_DISK_MB="1") as server:
        file, aside = data / "store.db", data / "aside.db"
        begun = checkpoint(file)
        for number in range(20):
            assert sync(server, f"s{number}", secrets.token_hex(9_000)).status_code == 200
        complete_file = checkpoint(file)
        assert len(complete_file) > len(begun)
        assert sync(server, "last").status_code == 200
        if accident == "gone":
            file.rename(aside)
        else:
            new_content = {
                "emptied": b"",
                "cut": complete_file[: len(complete_file) // 2],
                "another's": (tmp_path / "other" / "store.db").read_bytes(),
                "older": begun,
            }[accident]
            with file.open("r+b") as open_file:  # in place: it is the same file
                open_file.truncate()
                open_file.write(new_content)
                open_file.truncate()
        refused = error(sync(server, "u"), 503, "storage_unavailable")["message"]
        assert "nothing was written" in refused
        assert ("cut or overwritten" in refused) is (accident != "gone")
        error(wait_for_status(server.url, 503), 503, "not_ready")
        if accident == "gone":
            assert not file.exists()
            aside.rename(file)
        else:
            file.write_bytes(complete_file)
        wait_for_status(server.url, 200)
        assert sync(server, "u").status_code == 200


def test_read_only_store_is_503_until_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite opens the file for reading only, as it does on a read-only disk."""
    monkeypatch.setattr(looks, "PROBE_SECONDS", 0.0)

    def call(walker: str, **fields: Any) -> httpx.Response:
        return ask(service.app, "POST", f"/walker/{walker}", service.token, json=fields)

    with in_process(tmp_path / "data") as service:
        store = service.app.state.service.runtime.store
        messages = [{"role": "user", "content": "hello"}]
        assert call("sync", session="before", messages=messages).status_code == 200
        with monkeypatch.context() as patch:
            patch.setattr(store, "_address", store._address.replace("mode=rw", "mode=ro"))
            while store._idle:
                store._close_connection(store._idle.pop())
            refused = call("sync", session="during", messages=messages)
            sentence = error(refused, 503, "storage_unavailable")["message"]
            assert sentence == "The store cannot be written to; nothing was written."
            not_ready = error(ask(service.app, "GET", "/healthz/ready"), 503, "not_ready")
            assert not_ready["message"] == sentence
            assert call("export_session", session="before").json()["reports"]
        wait_until(lambda: ask(service.app, "GET", "/healthz/ready").status_code == 200)
        assert call("sync", session="after", messages=messages).status_code == 200
        (listed,) = call("list_sessions").json()["reports"]
        assert {session["session"] for session in listed["sessions"]} == {"before", "after"}


def test_details_and_metrics_need_loopback_or_local_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXTRENDER_MIN_FREE_DISK_MB", str(10**8))
    app = build_app(tmp_path)
    try:
        assert ask(app, "GET", "/healthz/live").json() == {"status": "ok"}
        accounts = app.state.service.accounts
        token, other = accounts.local_token(), accounts.token(accounts.add("other"))
        look, figures = (partial(ask, app, "GET", path) for path in ("/healthz/ready", "/metrics"))
        for unknown in ("", other, "made-up"):
            error_fields = error(look(unknown, address="10.0.0.9"), 503, "not_ready")
            assert error_fields["message"] == "The server is not ready."
            assert figures(unknown, address="10.0.0.9").status_code == 401
        for address, valid_token in (("127.0.0.1", ""), ("10.0.0.9", token)):
            error_fields = error(look(valid_token, address=address), 503, "not_ready")
            assert "CONTEXTRENDER_MIN_FREE_DISK_MB" in error_fields["message"]
            assert "contextrender_stored_bytes" in figures(valid_token, address=address).text
    finally:
        app.state.service.close()


def test_hanging_store_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hanging disk is a double."""
    monkeypatch.setattr(looks, "ANSWER_SECONDS", 0.05)
    store, resume = SqliteStore(tmp_path / "store.db"), threading.Event()
    monkeypatch.setattr(store, "probe", resume.wait)
    unset: Any = None
    readiness = Readiness(store, tmp_path, Settings(min_free_disk_mb=1), unset, unset)
    for _ in range(3):
        with pytest.raises(NotReady, match="does not answer"):
            asyncio.run(readiness.check())
    resume.set()
    monkeypatch.setattr(looks, "ANSWER_SECONDS", 30)
    assert asyncio.run(readiness.check())["status"] == "ready"
    readiness.close()
    store.close()


@pytest.mark.slow
def test_failed_embedding_is_reported_and_leaves_the_server_ready(tmp_path: Path) -> None:
    with (
        provider(lambda _: (500, {"error": {"message": "no embeddings today"}})) as double,
        running_server(
            tmp_path / "data", **double.environment(embed_model="text-embedding-3-small")
        ) as server,
    ):
        assert request_readiness(server.url).json()["embedder_fails"] is False
        with server.api() as api:
            api("render", session="s", messages=agent_run(20, lines=5), budget=300)
            results = api("explain", session="s")["results"]
            assert {result["relevance"] for result in results} == {0.0}
        assert double.requests
        response = request_readiness(server.url)
        assert (response.status_code, response.json()["embedder_fails"]) == (200, True)
