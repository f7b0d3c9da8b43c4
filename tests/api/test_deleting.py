"""`delete_session` deletes in slices: other requests run in between, and no row remains."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from uuid import UUID

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.runtime import request
from contextrender_bridge.runtime.archetypes import read_problem
from contextrender_bridge.sessions.check import check_owner
from contextrender_bridge.store.base import Store
from contextrender_bridge.store.opening import open_store
from contextrender_bridge.store.writes import StoreUnavailable, WriteBatch

from tests.api.conftest import Service, User
from tests.server.servers import another_server
from tests.support.transcripts import agent_run

RUN = agent_run(30, lines=3)


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "NODES_PER_DELETION", 10)


@pytest.mark.usefixtures("slices")
def test_other_requests_write_between_slices(
    alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice.api("sync", session="s", messages=RUN)
    under_way, resume = threading.Event(), threading.Event()
    write = Store.write
    deletion_count = 0

    def write_and_pause(self: Store, batch: WriteBatch) -> None:
        nonlocal deletion_count
        write(self, batch)
        deletion_count += bool(batch.delete_edges_at or batch.delete_unchecked)
        if deletion_count == 3:
            under_way.set()
            assert resume.wait(30)

    monkeypatch.setattr(Store, "write", write_and_pause)
    with ThreadPoolExecutor(1) as threads:
        deletion = threads.submit(alice.api, "delete_session", session="s")
        assert under_way.wait(30)
        deletion_count = 99
        bob.api("sync", session="b", messages=RUN)
        alice.api("sync", session="another", messages=RUN)
        listed = alice.api("list_sessions")["sessions"]
        assert [session["session"] for session in listed] == ["another"]
        resume.set()
        assert deletion.result()["nodes"] > 60
    alice.api("delete_session", session="another")
    assert alice.graph().counts == {}


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize("slice", [1, 4, 13])
def test_interrupted_deletion_is_finished_later(
    alice: User, monkeypatch: pytest.MonkeyPatch, slice: int
) -> None:
    alice.api("sync", session="s", messages=RUN)
    countdown = [slice]
    write = Store.write

    def write_or_fail(self: Store, batch: WriteBatch) -> None:
        countdown[0] -= bool(batch.delete_edges_at or batch.delete_unchecked)
        if not countdown[0]:
            raise StoreUnavailable("The store did not take the change; nothing was written.")
        write(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", write_or_fail)
        alice.api.refused("delete_session", 503, "storage_unavailable", session="s")
    assert alice.graph().counts["ToolResult"]
    assert alice.api("list_sessions")["sessions"] == []
    alice.api.refused("inspect_session", 404, "not_found", session="s")
    with closing(open_store(alice.data)) as store:
        assert list(check_owner(store, UUID(alice.root), read_problem)) == []
    other: list[Json] = [{"role": "user", "content": "Something else."}]
    assert alice.api("sync", session="s", messages=other)["offset"] == 1
    kinds = ("Session", "Branch", "Message", "Owns", "HasBranch", "HasFirstEvent")
    assert alice.graph().counts == dict.fromkeys(kinds, 1)
    alice.graph().check()


@pytest.mark.slow
def test_deletion_is_finished_after_server_is_killed(service: Service) -> None:
    alice = service.new_user()
    alice.api("sync", session="s", messages=agent_run(500, lines=1))
    with (
        another_server(service.data) as server,
        server.api(alice.api.token) as api,
        ThreadPoolExecutor(1) as threads,
    ):
        deletion = threads.submit(lambda: api.post("delete_session", session="s"))
        while "Session" in alice.graph().counts:
            assert server.process.poll() is None
        server.stop(signal.SIGKILL)
        assert deletion.exception() is not None or deletion.result().status_code == 200
    with another_server(service.data) as server, server.api(alice.api.token) as api:
        assert api.post("delete_session", session="s").status_code in (200, 404)
    assert alice.graph().counts == {}


def test_deletion_is_refused_when_session_has_changed(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN[:3])
    (session,) = alice.api("list_sessions")["sessions"]
    alice.api("sync", session="s", messages=RUN[:5])
    fields: dict[str, Any] = {"session": "s", "updated_at": session["updated_at"]}
    alice.api.refused("delete_session", 409, "conflict", **fields)
    (session,) = alice.api("list_sessions")["sessions"]
    alice.api("delete_session", session="s", updated_at=session["updated_at"])
    assert alice.graph().counts == {}
