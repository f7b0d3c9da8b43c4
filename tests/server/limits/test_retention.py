"""What is not kept goes, longest unused first; what is in use stays, whatever the limits."""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge.base.settings import read_settings
from contextrender_bridge.server.limits import retention as module
from contextrender_bridge.server.limits.retention import Retention
from contextrender_bridge.server.watching.metrics import Metrics

from tests.support.command import printed
from tests.support.local import Local, local


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Local]:
    with local(tmp_path / "data") as made:
        yield made


def sync(kit: Local, session: str, text: str = "Hello.") -> None:
    kit("sync", session=session, messages=[{"role": "user", "content": text}])


def names(kit: Local) -> set[str]:
    return {one["session"] for one in kit("list_sessions")["sessions"]}


def retention_of(kit: Local, **limits: Any) -> Retention:
    return Retention(kit.runtime, kit.accounts, replace(read_settings(), **limits))


@pytest.fixture
def later(kit: Local, monkeypatch: pytest.MonkeyPatch) -> Local:
    """Three sessions, and it is ten days later; the last two were used since."""
    real = time.time
    for session in ("a", "b", "c"):
        sync(kit, session, f"{session} " * 40_000 + f"VALUE_{session}")
    monkeypatch.setattr(time, "time", lambda: real() + 10 * module.DAY)
    return kit


def test_age(later: Local) -> None:
    assert retention_of(later, retention_days=11).collect() == []
    gone = retention_of(later, retention_days=9).collect()
    assert [(one.session.key, one.reason) for one in gone] == [(n, "age") for n in "abc"]
    assert names(later) == set()


def test_number_of_sessions_longest_unused_first(later: Local) -> None:
    sync(later, "a", "a branch: it is used again")
    retention = retention_of(later, retention_sessions=2)
    metrics = Metrics(later.runtime.store, later.data, [])
    retention.on_collected = lambda why: metrics.deletions.labels(why).inc()
    assert [one.session.key for one in retention.due()] == ["b"]
    assert names(later) == {"a", "b", "c"}  # only looked
    assert [one.reason for one in retention.collect()] == ["sessions"]
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


def test_bytes_and_the_space_is_given_back(kit: Local, monkeypatch: pytest.MonkeyPatch) -> None:

    draw = random.Random(1)
    for session in ("a", "b", "c"):
        sync(kit, session, "".join(chr(draw.randrange(33, 126)) for _ in range(700_000)))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + module.DAY)
    gone = retention_of(kit, retention_mb=1).collect()
    assert [(one.session.key, one.reason) for one in gone] == [("a", "bytes"), ("b", "bytes")]
    assert all(500_000 < one.bytes < 800_000 for one in gone)
    assert sum(file.stat().st_size for file in kit.data.glob("store.db*")) < 1_000_000


def test_what_is_in_use_stays_and_it_is_said(kit: Local, caplog: pytest.LogCaptureFixture) -> None:
    for session in ("a", "b"):
        sync(kit, session)
    assert retention_of(kit, retention_sessions=1).collect() == []
    assert names(kit) == {"a", "b"}
    assert "in use" in caplog.text


def test_the_command_says_what_would_go_and_what_went(
    kit: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    for session in ("a", "b", "c"):
        sync(kit, session)
    monkeypatch.setattr(module, "LIVE_SECONDS", 0.0)
    monkeypatch.setenv("CONTEXTRENDER_RETENTION_SESSIONS", "2")
    said = printed("gc", "--data", kit.data, "--dry-run")
    assert "local  a  sessions" in said and "Sessions would go: 1" in said
    assert "Sessions deleted: 1" in printed("gc", "--data", kit.data)
    assert names(kit) == {"b", "c"}
