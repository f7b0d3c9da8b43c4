"""Servers under load are killed, lose their database lock or see the clock jump, and lose nothing.

`CHAOS_ROUNDS` is the number of kills, `CHAOS_SEED` the seed of the agents.
"""

import os
import random
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from tests.api.graph import Graph, reading
from tests.api.test_concurrency import branch_histories
from tests.api.test_durability import store_locked
from tests.server.conftest import NewStore
from tests.server.servers import Server, another_server, running_server
from tests.support.chaos_agents import Agent
from tests.support.plain_graph import check_graph
from tests.support.waiting import until

AGENTS = 4
ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "20"))
ROUNDS_A_STORE = 25
"""Rounds per store: each round checks the whole store, so 200 rounds on one store take hours."""
SEED = int(os.environ.get("CHAOS_SEED", "0")) or random.SystemRandom().randrange(2**32)
FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
PATIENCE_SECONDS = 120


class Load:
    """Agents that work concurrently."""

    def __init__(self, seed: int = SEED) -> None:
        print(f"CHAOS_SEED={SEED}")
        self.random = random.Random(seed)
        self.agents = [
            Agent(f"agent{number}", random.Random(self.random.random())) for number in range(AGENTS)
        ]
        self._working: list[Future[None]] = []

    @contextmanager
    def on(self, server: Server) -> Iterator[None]:
        """Let the agents work during the block, which may kill the server; raise their errors."""
        ended = threading.Event()
        with ExitStack() as stack:
            clients = [stack.enter_context(server.api()) for _ in self.agents]
            threads = stack.enter_context(ThreadPoolExecutor(AGENTS))
            self._working = [
                threads.submit(agent.work, api, ended)
                for agent, api in zip(self.agents, clients, strict=True)
            ]
            try:
                yield
            finally:
                ended.set()
            for future in self._working:
                future.result(PATIENCE_SECONDS)

    def wait(self, calls: int) -> None:
        """Wait for this many more answers. Fail as soon as an agent fails."""
        goal = self.answered + calls

        def reached() -> bool:
            failed = [future.exception() for future in self._working if future.done()]
            assert not failed, failed
            return self.answered >= goal

        until(reached)

    @property
    def answered(self) -> int:
        return sum(agent.answered for agent in self.agents)

    @property
    def busy(self) -> int:
        return sum(agent.busy for agent in self.agents)

    def settle(self, server: Server) -> None:
        """Assert that the API and the database have exactly what was acknowledged."""
        with server.api() as api:
            for agent in self.agents:
                if agent.deleting:  # the deletion continues
                    reply = api.post("delete_session", session=agent.deleting)
                    assert reply.status_code in (200, 404), reply.text
            names = [session["session"] for session in api("list_sessions", limit=200)["sessions"]]
            stored_histories = {
                name: branch_histories(api("export_session", session=name)) for name in names
            }
        for agent in self.agents:
            own_histories = {
                name: lines for name, lines in stored_histories.items() if owner(name) == agent.name
            }
            agent.settle(own_histories)
        assert {owner(name) for name in stored_histories} <= {agent.name for agent in self.agents}
        check_graph(local_graph(server.data), stored_histories)


def owner(session: str) -> str:
    return session.split("-")[0]


def local_graph(data: Path) -> Graph:
    """Return the graph of the only user with sessions."""
    query = """SELECT DISTINCT owner FROM nodes
               WHERE kind = (SELECT number FROM kinds WHERE name = 'Session')"""
    with reading(data) as read:
        ((root,),) = read(query)
    return Graph.read(data, str(root if isinstance(root, UUID) else UUID(bytes=root)))


@pytest.mark.parametrize(
    ("number", "kills", "calls"),
    [
        (0, 1, 30),
        *(
            pytest.param(first, min(ROUNDS - first, ROUNDS_A_STORE), 100, marks=pytest.mark.slow)
            for first in range(0, ROUNDS, ROUNDS_A_STORE)
        ),
    ],
)
def test_server_killed_under_load_loses_nothing(
    data: Path,
    new_store: NewStore,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kills: int,
    calls: int,
) -> None:
    """Kill the server of one store in each round; check the store after every kill."""
    for name, value in new_store().items():
        monkeypatch.setenv(name, value)
    load = Load(SEED + number)
    for _ in range(kills):
        with another_server(data) as server:
            if load.answered:
                load.settle(server)
            with load.on(server):
                load.wait(load.random.randrange(5, calls))
                server.kill()
    with another_server(data) as server:
        load.settle(server)
    assert not load.busy


@pytest.mark.slow
def test_locked_database_refuses_writes_and_loses_nothing(data: Path) -> None:
    load = Load()
    with another_server(data) as server, load.on(server):
        load.wait(30)
        with store_locked(data):
            load.wait(1)
            while not load.busy:
                load.wait(1)
        load.wait(30)
        with store_locked(data):
            server.stop(signal.SIGKILL)
    assert load.busy
    with another_server(data) as server:
        load.settle(server)


@pytest.mark.slow
@pytest.mark.skipif(not FAKETIME, reason="libfaketime is not installed (Debian: faketime)")
def test_clock_jumps_lose_nothing(data: Path, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text("+0")
    load = Load()
    environment = {
        "LD_PRELOAD": str(FAKETIME[0]),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with running_server(data, **environment) as server, load.on(server):
        for offset in ("-50", "+3600", "+0", "-50"):
            load.wait(10)
            clock.write_text(offset)
        load.wait(10)
        server.stop(signal.SIGKILL)
    with another_server(data) as server:
        load.settle(server)
