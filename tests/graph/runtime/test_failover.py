"""The primary killed with -9 under load; the service goes on with the synchronous standby.

One round, or `FAILOVER_ROUNDS`.
"""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge import ContextRender
from contextrender_bridge.client.credentials import load_credentials
from contextrender_bridge.errors import ServerError
from contextrender_bridge.settings import Settings
from contextrender_bridge.wire import Json

from graph.runtime.postgres import PostgresStore
from graph.runtime.unit import StoreUnavailable
from tests.graph.runtime.test_postgres import unit
from tests.server.servers import BIN, Server, running
from tests.support.postgres import Cluster, missing
from tests.support.replicated import PGBOUNCER, Pair, pair, pooled, until

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

ROUNDS = int(os.environ.get("FAILOVER_ROUNDS", "1"))
AGENTS = 4
MORE = 5
"""Messages of each agent that are acknowledged before and after the primary is killed."""


class Agent:
    """Records its history message by message, again where that failed, until it is told to stop."""

    def __init__(self, server: Server, session: str) -> None:
        self.session = session
        self.acknowledged: list[Json] = []
        self._client = ContextRender(server.url, load_credentials(server.data).token, retries=0)

    def run(self, ended: threading.Event) -> None:
        while not ended.is_set():
            try:
                self.go_on()
            except ServerError as refused:
                assert refused.status == 503, refused
                time.sleep(0.05)

    def go_on(self) -> None:
        """One message more. Raises ServerError."""
        number = len(self.acknowledged)
        role = "assistant" if number % 2 else "user"
        history = [*self.acknowledged, {"role": role, "content": f"message {number}"}]
        self._client.sync(self.session, history)
        self.acknowledged = history

    def stored(self) -> list[Json]:
        """What the service has of it; the last question."""
        with self._client as client:
            (branch,) = client.export_session(self.session)["branches"]
        return branch["messages"]


@pytest.fixture
def replicated() -> Iterator[Pair]:
    with pair() as made:
        yield made


def served(address: str, folder: Path) -> Any:
    data = folder / "server" / "data"
    command = [str(BIN / "contextrender"), "serve", "--port", "0", "--data", str(data)]
    return running(command, data, CONTEXTRENDER_DATABASE=address)


def test_nothing_acknowledged_is_lost_when_the_primary_is_killed(
    replicated: Pair, tmp_path: Path
) -> None:
    ended = threading.Event()
    with (
        served(replicated.address, tmp_path) as server,
        ThreadPoolExecutor(AGENTS) as threads,
    ):
        agents = [Agent(server, f"session-{number}") for number in range(AGENTS)]
        running_agents = [threads.submit(agent.run, ended) for agent in agents]
        try:
            for _ in range(ROUNDS):
                go_on(agents, running_agents)
                replicated.kill_primary()
                replicated.promote()
                go_on(agents, running_agents)
                replicated.rejoin()
        finally:
            ended.set()
        for run in running_agents:
            run.result()
        for agent in agents:
            assert agent.stored()[: len(agent.acknowledged)] == agent.acknowledged


def test_a_primary_that_comes_back_alone_acknowledges_nothing(replicated: Pair) -> None:
    replicated.kill_primary()
    replicated.promote()
    old = replicated.standby
    old.start()
    store = None
    with pytest.raises(StoreUnavailable):
        store = PostgresStore(old.address, Settings(database_statement_timeout=0.5))
        store.write(unit(store))
    if store is not None:
        store.close()
    new = PostgresStore(replicated.primary.address, Settings())
    new.write(unit(new))
    new.close()


@pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")
def test_behind_a_pooler_in_transaction_mode(tmp_path: Path) -> None:
    ended = threading.Event()
    with (
        Cluster.running() as cluster,
        pooled(cluster) as address,
        served(address, tmp_path) as server,
        ThreadPoolExecutor(AGENTS) as threads,
    ):
        agents = [Agent(server, f"session-{number}") for number in range(AGENTS)]
        running_agents = [threads.submit(agent.run, ended) for agent in agents]
        try:
            go_on(agents, running_agents)
        finally:
            ended.set()
        for run in running_agents:
            run.result()
        for agent in agents:
            assert agent.stored()[: len(agent.acknowledged)] == agent.acknowledged


def go_on(agents: list[Agent], runs: list[Any]) -> None:
    """Until each agent has had some more messages acknowledged."""
    goals = [len(agent.acknowledged) + MORE for agent in agents]

    def reached() -> bool:
        for run in runs:
            if run.done():
                run.result()
        counts = [len(agent.acknowledged) for agent in agents]
        return all(count >= goal for count, goal in zip(counts, goals, strict=True))

    until(reached)
