"""Servers under load are killed, lose their database lock or see the clock jump, and lose nothing.

Each agent has its own sessions, sends every kind of write and records what was acknowledged. A
request that was running when the server died happened completely or not at all: the agent keeps
both states until `settle` decides. `CHAOS_ROUNDS` is the number of kills, `CHAOS_SEED` the seed of
the agents.
"""

import itertools
import os
import random
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from contextrender_bridge.base.wire import Json

from tests.api.client import Api
from tests.api.graph import Graph, reading
from tests.api.test_concurrency import branch_histories
from tests.api.test_durability import store_locked
from tests.server.conftest import NewStore
from tests.server.servers import Server, another_server, running_server
from tests.support.plain_graph import check_graph
from tests.support.transcripts import assistant, call, result, user
from tests.support.waiting import wait_until

Lines = list[list[Json]]
"""The branches of a session by number, each with its full history."""

States = dict[str, Lines]
LONGEST = 18


@dataclass
class Agent:
    """A client; `acknowledged` has the acknowledged branches by session."""

    name: str
    random: random.Random
    acknowledged: States = field(default_factory=dict)
    under_way: States | None = None
    deleting: str = ""
    busy: int = 0
    answer_count: int = 0
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def work(self, api: Api, ended: threading.Event) -> None:
        while not ended.is_set():
            try:
                self._step(api)
            except httpx.TransportError:
                return
            self.answer_count += 1

    def settle(self, stored_branches: States) -> None:
        """Accept the stored state, which must be one of the two possible states."""
        possible = [self.acknowledged, *([] if self.under_way is None else [self.under_way])]
        assert stored_branches in possible, (
            self.name,
            shape(stored_branches),
            [shape(state) for state in possible],
        )
        self.acknowledged, self.under_way, self.deleting = stored_branches, None, ""

    def _step(self, api: Api) -> None:
        kinds = [self._go_on] * 6 + [self._rewrite] * 2 + [self._recall] * 2
        full = [name for name, lines in self.acknowledged.items() if len(lines[0]) >= LONGEST]
        if len(self.acknowledged) > 3:
            self._delete(api, self.random.choice([*self.acknowledged]))
        elif full:
            self.random.choice([self._delete, self._copy])(api, full[0])
        elif not self.acknowledged:
            self._record(api, f"{self.name}-{next(self.numbers)}", [], 0)
        else:
            self.random.choice(kinds)(api, self.random.choice([*self.acknowledged]))

    def _go_on(self, api: Api, session: str) -> None:
        lines = self.acknowledged[session]
        self._record(api, session, lines, self.random.randrange(len(lines)))

    def _rewrite(self, api: Api, session: str) -> None:
        lines = self.acknowledged[session]
        kept_messages = lines[0][: self.random.randrange(1, len(lines[0]))]
        sentence = f"Once more, {self.name}_{next(self.numbers)}."
        self._send(api, session, [*lines, [*kept_messages, user(sentence)]], len(lines))

    def _record(self, api: Api, session: str, lines: Lines, index: int) -> None:
        line = (
            [*lines[index], *self._turn(lines[index])]
            if lines
            else [user("Begin."), *self._turn([])]
        )
        self._send(api, session, [*lines[:index], line, *lines[index + 1 :]], index)

    def _turn(self, before: list[Json]) -> list[Json]:
        """Return a step whose call uses an earlier result's value and whose result has new
        values."""
        number = next(self.numbers)
        contents = [message["content"] for message in before if message["role"] == "tool"]
        value = self.random.choice(contents).split()[0] if contents else "nothing"
        text = f"{self.name}_item_{number} REQ-{number}\\nclerk_{number % 7} " + "row " * 60
        calls = [call(f"c{number}", "look", f'{{"of": "{value}"}}')]
        if self.random.random() < 0.3:
            calls.append(call(f"d{number}", "unanswered", "{}"))
        return [assistant(f"I look at {value}.", *calls), result(f"c{number}", text)]

    def _send(self, api: Api, session: str, lines: Lines, index: int) -> None:
        fields: Json = {"session": session, "messages": lines[index]}
        walker = self.random.choice(["sync", "render"])
        if walker == "render":
            fields["budget"] = 200
        self._write(api, walker, fields, {**self.acknowledged, session: lines})

    def _copy(self, api: Api, session: str) -> None:
        data = api("export_session", session=session)
        copy = f"{self.name}-{next(self.numbers)}"
        after = {**self.acknowledged, copy: self.acknowledged[session]}
        self._write(api, "import_session", {"session": copy, "data": data}, after)
        self._delete(api, session)

    def _delete(self, api: Api, session: str) -> None:
        after = {name: lines for name, lines in self.acknowledged.items() if name != session}
        self.deleting = session
        self._write(api, "delete_session", {"session": session}, after)
        self.deleting = ""

    def _recall(self, api: Api, session: str) -> None:
        """Recall a result of the first branch by position and check that it is unchanged."""
        line = self.acknowledged[session][0]
        (position, *_) = [
            position for position, message in enumerate(line) if message["role"] == "tool"
        ]
        (result,) = api("recall", session=session, results=[position], branch=0)["results"]
        assert result["message"]["content"] == line[position]["content"]

    def _write(self, api: Api, walker: str, fields: Json, after: States) -> None:
        """Send a write. If the store refuses it, keep the acknowledged state."""
        self.under_way = after
        reply = api.post(walker, **fields)
        if reply.status_code == 503 and reply.json()["error"]["code"] == "storage_unavailable":
            self.busy += 1
        else:
            assert reply.status_code == 200, (walker, reply.text)
            self.acknowledged = after
        self.under_way = None


def shape(states: States) -> dict[str, list[int]]:
    return {name: [len(line) for line in lines] for name, lines in states.items()}


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
        goal = self.answer_count + calls

        def has_answers() -> bool:
            failed = [future.exception() for future in self._working if future.done()]
            assert not failed, failed
            return self.answer_count >= goal

        wait_until(has_answers)

    @property
    def answer_count(self) -> int:
        return sum(agent.answer_count for agent in self.agents)

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
            if load.answer_count:
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
