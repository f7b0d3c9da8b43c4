"""Limits for each user."""

import random
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import httpx
import pytest
from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.server.limits import counting
from contextrender_bridge.server.limits.counting import Counts, Quotas

from tests.server.conftest import NewStore
from tests.server.http.test_replies import error
from tests.server.servers import forked_server


def test_calls_per_minute_are_limited_across_processes(tmp_path: Path) -> None:
    now = 0.0
    no_accounts: Any = None
    settings = Settings(user_max_calls_per_minute=30)
    quotas, other_quotas = (
        Quotas(settings, no_accounts, Counts(tmp_path), clock=lambda: now) for _ in range(2)
    )
    caller: Any = SimpleNamespace(user="one")
    for _ in range(15):
        quotas.check_call(caller)
        other_quotas.check_call(caller)
    with pytest.raises(InvalidRequest) as refused:
        quotas.check_call(caller)
    assert (refused.value.status, refused.value.details) == (429, {"retry_after": 2})
    quotas.check_call(SimpleNamespace(user="other"))  # type: ignore[arg-type]
    now = 2.0
    quotas.check_call(caller)
    with pytest.raises(InvalidRequest):
        quotas.check_call(caller)


@pytest.mark.slow
def test_sessions_bytes_and_calls_of_a_user_are_limited(
    tmp_path: Path, new_store: NewStore
) -> None:
    data = tmp_path / "data"
    limited = forked_server(
        data,
        CONTEXTRENDER_USER_MAX_SESSIONS="2",
        CONTEXTRENDER_USER_MAX_MB="1",
        CONTEXTRENDER_USER_MAX_CALLS_PER_MINUTE="30",
        CONTEXTRENDER_UPSTREAM="http://127.0.0.1:9",
        **new_store(),
    )
    with limited as server, server.client() as client:

        def sync(session: str, text: str = "hello") -> httpx.Response:
            messages = [{"role": "user", "content": text}]
            return client.post("/walker/sync", json={"session": session, "messages": messages})

        assert [sync(name).status_code for name in "ab"] == [200, 200]
        error(sync("c"), 429, "too_many_sessions")
        assert sync("a").status_code == 200
        client.post("/walker/delete_session", json={"session": "a"})
        noise = random.Random(1).randbytes(2 * 2**20).hex()  # compresses to at least half its size
        assert sync("c", noise).status_code == 200
        full = sync("b", "more")
        error(full, 429, "too_much_stored")
        assert full.headers["retry-after"] == "60"
        assert client.post("/walker/export_session", json={"session": "c"}).status_code == 200
        assert client.post("/walker/delete_session", json={"session": "c"}).status_code == 200
        assert sync("d").status_code == 200

        reply = client.post("/walker/list_sessions", json={})
        assert reply.status_code == 200
        while reply.status_code != 429:  # the quota refills meanwhile
            reply = client.post("/walker/list_sessions", json={})
        error(reply, 429, "too_many_calls")
        assert reply.headers["retry-after"] in ("1", "2")
        headers = {"x-contextrender-token": client.headers["authorization"][7:]}
        call = {"model": "m", "messages": []}
        proxied = client.post("/v1/chat/completions", json=call, headers=headers)
        while proxied.status_code != 429:
            proxied = client.post("/v1/chat/completions", json=call, headers=headers)
        assert "retry-after" in proxied.headers


@pytest.mark.slow
def test_session_recorded_again_is_not_refused(tmp_path: Path) -> None:
    """The damaged session counts, too, so that the user can create no other one."""
    data = tmp_path / "data"
    limit = {"CONTEXTRENDER_USER_MAX_SESSIONS": "2"}
    messages = [{"role": "user", "content": "hello"}]

    def sync(client: httpx.Client, session: str) -> int:
        fields = {"session": session, "messages": messages}
        return client.post("/walker/sync", json=fields).status_code

    with forked_server(data, **limit) as server, server.client() as client:
        assert [sync(client, name) for name in "abc"] == [200, 200, 429]
    with closing(sqlite3.connect(data / "store.db", autocommit=True)) as store:
        kind = "SELECT number FROM kinds WHERE name = 'Branch'"
        store.execute(f"UPDATE nodes SET data = x'00' WHERE kind = ({kind})")
    with forked_server(data, **limit) as server, server.client() as client:
        assert [sync(client, name) for name in "abc"] == [200, 200, 429]
        reports = client.post("/walker/list_sessions", json={}).json()["reports"]
        names = [session["session"] for session in reports[0]["sessions"]]
        assert len(names) == 4
        for name, expected in zip(sorted(names, reverse=True), (429, 429, 200, 200), strict=True):
            client.post("/walker/delete_session", json={"session": name})
            assert sync(client, "c") == expected


def test_session_creation_does_not_wait_for_other_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, other = (
        SimpleNamespace(user=str(number), root=str(UUID(int=number))) for number in (1, 2)
    )
    is_reading, may_go_on = threading.Event(), threading.Event()

    def count(store: object, owner: UUID) -> int:
        if str(owner) == slow.root:
            is_reading.set()
            assert may_go_on.wait(60)
        return 0

    monkeypatch.setattr(counting, "has_session", lambda *_: False)
    monkeypatch.setattr(counting, "count_sessions", count)
    store: Any = None
    quotas = Quotas(Settings(user_max_sessions=1), store, Counts(tmp_path))

    def create(caller: Any, session: str = "s") -> None:
        with quotas.reserve(caller, {"session": session, "messages": []}, b""):
            pass

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(create, slow)
        assert is_reading.wait(60)
        pool.submit(create, other).result(20)  # does not wait for the first session
        may_go_on.set()
        first.result(60)
    with quotas.reserve(other, {"session": "a", "messages": []}, b""):  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest):
            create(other, "b")
        create(other, "a")


@pytest.mark.parametrize("workers", [1, 2])
def test_concurrent_creation_respects_session_limit(
    tmp_path: Path, new_store: NewStore, workers: int
) -> None:
    limit, calls = 10, 60
    options = ("--workers", str(workers))
    limited = forked_server(
        tmp_path / "data", *options, CONTEXTRENDER_USER_MAX_SESSIONS=str(limit), **new_store()
    )
    with limited as server, server.client() as client:

        def create(number: int) -> int:
            messages = [{"role": "user", "content": f"task {number}"}]
            fields = {"session": f"s{number}", "messages": messages}
            with server.client() as new_client:  # a new connection may reach either worker
                return new_client.post("/walker/sync", json=fields).status_code

        with ThreadPoolExecutor(calls) as pool:
            statuses = list(pool.map(create, range(calls)))
        assert set(statuses) <= {200, 429}
        created = statuses.count(200)
        assert created <= limit
        # A failed call uses no quota.
        assert (
            client.post("/walker/sync", json={"session": "bad", "messages": 1}).status_code == 422
        )
        wrong = [{"role": "tool", "tool_call_id": "none", "content": "x"}]
        client.post("/walker/sync", json={"session": "bad", "messages": wrong})
        client.post("/walker/delete_session", json={"session": "bad"})
        later = [create(calls + number) for number in range(limit)]
        assert later == [200] * (limit - created) + [429] * created
