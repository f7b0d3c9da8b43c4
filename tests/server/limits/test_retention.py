"""Retention deletes the longest unused sessions first and never a session in use."""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from contextrender_bridge.base.settings import read_settings
from contextrender_bridge.server import build_app
from contextrender_bridge.server.limits import retention as module
from contextrender_bridge.server.limits.retention import Retention
from contextrender_bridge.server.watching.metrics import Metrics

from tests.support.command import printed
from tests.support.local import LocalService, local_service
from tests.support.scripted_model import serving
from tests.support.waiting import wait_until


@pytest.fixture
def service(tmp_path: Path) -> Iterator[LocalService]:
    with local_service(tmp_path / "data") as new_service:
        yield new_service


def sync(service: LocalService, session: str, text: str = "Hello.") -> None:
    service("sync", session=session, messages=[{"role": "user", "content": text}])


def names(service: LocalService) -> set[str]:
    return {session["session"] for session in service("list_sessions")["sessions"]}


def retention_of(service: LocalService, **limits: Any) -> Retention:
    return Retention(service.runtime, service.accounts, replace(read_settings(), **limits))


@pytest.fixture
def later(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> LocalService:
    """Store three sessions and move the clock ten days ahead."""
    real = time.time
    for session in ("a", "b", "c"):
        sync(service, session, f"{session} " * 40_000 + f"VALUE_{session}")
    monkeypatch.setattr(time, "time", lambda: real() + 10 * module.DAY)
    return service


def test_sessions_are_deleted_by_age(later: LocalService) -> None:
    assert retention_of(later, retention_days=11).delete_due() == []
    deletions = retention_of(later, retention_days=9).delete_due()
    assert [(deletion.session.key, deletion.reason) for deletion in deletions] == [
        (name, "age") for name in "abc"
    ]
    assert names(later) == set()


def test_longest_unused_sessions_are_deleted_above_count(later: LocalService) -> None:
    sync(later, "a", "a branch: it is used again")
    retention = retention_of(later, retention_sessions=2)
    metrics = Metrics(later.runtime.store, later.data)
    retention.on_deleted = lambda reason: metrics.deletions.labels(reason).inc()
    assert [deletion.session.key for deletion in retention.due_sessions()] == ["b"]
    assert names(later) == {"a", "b", "c"}  # `due` deletes nothing
    assert [deletion.reason for deletion in retention.delete_due()] == ["sessions"]
    assert names(later) == {"a", "c"}
    assert 'deleted_sessions_total{reason="sessions"} 1.0' in metrics.page().decode()
    lines = [json.loads(line) for line in (later.data / "audit.log").read_text().splitlines()]
    assert lines[-1] | {"time": ""} == {
        "time": "",
        "event": "session_deleted_by_retention",
        "user": "local",
        "session": "b",
        "reason": "sessions",
    }


def test_sessions_above_size_are_deleted_and_file_shrinks(
    service: LocalService, monkeypatch: pytest.MonkeyPatch
) -> None:

    draw = random.Random(1)
    for session in ("a", "b", "c"):
        sync(service, session, "".join(chr(draw.randrange(33, 126)) for _ in range(700_000)))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + module.DAY)
    deletions = retention_of(service, retention_mb=1).delete_due()
    assert [(deletion.session.key, deletion.reason) for deletion in deletions] == [
        ("a", "bytes"),
        ("b", "bytes"),
    ]
    assert all(500_000 < deletion.bytes < 800_000 for deletion in deletions)
    assert sum(file.stat().st_size for file in service.data.glob("store.db*")) < 1_000_000


def test_session_in_use_is_kept_with_warning(
    service: LocalService, caplog: pytest.LogCaptureFixture
) -> None:
    for session in ("a", "b"):
        sync(service, session)
    assert retention_of(service, retention_sessions=1).delete_due() == []
    assert names(service) == {"a", "b"}
    assert "in use" in caplog.text


def test_server_deletes_sessions_when_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_service(tmp_path / "data") as service:
        for session in ("a", "b", "c"):
            sync(service, session)
    monkeypatch.setattr(module, "IN_USE_SECONDS", 0.0)
    monkeypatch.setenv("CONTEXTRENDER_RETENTION_SESSIONS", "2")
    with serving(build_app(tmp_path / "data")) as url:
        line = 'deleted_sessions_total{reason="sessions"} 1.0'
        wait_until(lambda: line in httpx.get(f"{url}/metrics").text)
    with local_service(tmp_path / "data") as remaining:
        assert names(remaining) == {"b", "c"}


def test_gc_command_lists_deletions(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    for session in ("a", "b", "c"):
        sync(service, session)
    monkeypatch.setattr(module, "IN_USE_SECONDS", 0.0)
    monkeypatch.setenv("CONTEXTRENDER_RETENTION_SESSIONS", "2")
    output = printed("gc", "--data", service.data, "--dry-run")
    assert "local  a  sessions" in output and "Sessions would go: 1" in output
    assert "Sessions deleted: 1" in printed("gc", "--data", service.data)
    assert names(service) == {"b", "c"}
