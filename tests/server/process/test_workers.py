"""`contextrender serve --workers 2` behaves as one service."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.server.http.test_replies import error
from tests.server.servers import Server, running_server
from tests.server.watching.test_metrics import figures
from tests.support.persistent_agents import agents_at_work
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

Connect = Callable[..., httpx.Client]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("workers") / "data"
    with running_server(
        data, "--workers", "2", CONTEXTRENDER_USER_MAX_CALLS_PER_MINUTE="6000"
    ) as server:
        yield server
        assert server.stop(signal.SIGTERM) == 0
        assert not workers_of(server)


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[..., httpx.Client]]:
    with ExitStack() as stack:
        yield lambda *token: stack.enter_context(server.client(*token))


def workers_of(server: Server) -> list[int]:
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    return [int(pid) for pid in children.read_text().split()] if children.exists() else []


def sync(client: httpx.Client, session: str, count: int) -> httpx.Response:
    messages = [{"role": "user", "content": f"message {number}"} for number in range(count)]
    return client.post("/walker/sync", json={"session": session, "messages": messages})


def test_session_continues_in_any_worker(connect: Connect) -> None:
    clients = [connect() for _ in range(8)]
    for count, client in enumerate(clients, 1):
        reply = sync(client, "wandering", count).json()["reports"][0]
        assert (reply["offset"], reply["recorded"], reply["branch"]) == (count, 1, 0)


def test_metrics_include_all_workers(connect: Connect) -> None:
    clients = [connect() for _ in range(12)]
    key = ("contextrender_calls_total", "", "sync", "200")
    before = figures(clients[0])
    for number, client in enumerate(clients):
        assert sync(client, f"counted-{number}", 1).status_code == 200
    pages = [figures(client) for client in clients]
    assert {page[key] - before.get(key, 0) for page in pages} == {len(clients)}
    assert all(page[("contextrender_calls_in_flight",)] >= 1 for page in pages)


def test_revoked_token_is_refused_by_every_worker(server: Server, connect: Connect) -> None:
    token = server.add_user("mallory")
    clients = [connect(token) for _ in range(12)]
    for number, client in enumerate(clients):
        assert sync(client, f"s-{number}", 1).status_code == 200
    assert server.command("user", "token", "mallory", "--revoke").returncode == 0
    for number, client in enumerate(clients):
        assert sync(client, f"s-{number}", 2).status_code == 401


def test_failed_logins_are_counted_across_workers(connect: Connect) -> None:
    wrong = {"username": "nobody", "password": "not a password"}
    answers = [connect().post("/user/login", json=wrong) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]
    error(answers[-1], 429, "too_many_logins")


def test_killed_worker_is_replaced_during_calls(server: Server) -> None:
    """No acknowledged write is lost."""
    with agents_at_work(server, forgiven=0) as go_on:
        go_on()
        old = workers_of(server)
        os.kill(old[0], signal.SIGKILL)
        wait_until(lambda: len(workers_of(server)) == 2 and old[0] not in workers_of(server))
        go_on()
