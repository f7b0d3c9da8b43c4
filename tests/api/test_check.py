"""`check` finds nothing in an intact store. If a row is missing, it finds exactly that row."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from uuid import UUID

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.runtime.archetypes import read_problem
from contextrender_bridge.runtime.session_lease import WORKING_SET
from contextrender_bridge.sessions.check import check_owner
from contextrender_bridge.sessions.findings import Edge, StoreFinding
from contextrender_bridge.sessions.ids import place_of_id
from contextrender_bridge.store.base import Store
from contextrender_bridge.store.opening import open_store
from contextrender_bridge.store.writes import WriteBatch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.api.client import Api
from tests.api.conftest import Service, User
from tests.server.servers import Server, another_server
from tests.support.transcripts import agent_run, assistant, call, result, user

USAGE = {"uncached": 900, "cache_read": 50, "cache_write": 20, "output": 40}
NUMBERS = st.integers(0, 9)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("render"), NUMBERS),
        st.tuples(st.just("answer"), NUMBERS),
        st.tuples(st.just("answer"), NUMBERS),
        st.tuples(st.just("usage"), NUMBERS),
        st.tuples(st.just("say"), NUMBERS),
        st.tuples(st.just("sync"), NUMBERS),
        st.tuples(st.just("rewrite"), NUMBERS),
        st.tuples(st.just("return"), NUMBERS),
        st.tuples(st.just("switch"), NUMBERS),
        st.tuples(st.just("share"), NUMBERS),
        st.tuples(st.just("delete"), NUMBERS),
        st.tuples(st.just("retry"), NUMBERS),
        st.tuples(st.just("compact"), NUMBERS),
        st.tuples(st.just("move"), NUMBERS),
    ),
    min_size=6,
    max_size=24,
)
POLICIES = ("contextrender", "contextrender_cache_aware", "contextrender_excerpts", "recency")
DELIVERIES = ("rendered", "rendered", "rendered", "full", "holdout")


@pytest.fixture(scope="module")
def other(service: Service) -> Iterator[Server]:
    with another_server(service.data) as server:
        yield server


class Agent:
    """An agent that writes one session through one or two servers. Each step is a method."""

    def __init__(self, servers: list[Api]) -> None:
        self.servers, self.server_index = servers, 0
        self.line: list[Json] = agent_run(3, lines=3)
        self.lines: list[list[Json]] = [self.line]
        self.step_count = 0
        self.last_request: Json = {}

    @property
    def api(self) -> Api:
        return self.servers[self.server_index]

    def take(self, step: str, number: int) -> None:
        self.step_count += 1
        getattr(self, step)(number)
        if len(self.line) > 1:
            self.lines.append(self.line)

    def render(self, number: int) -> None:
        fields: Json = {"policy": POLICIES[number % 4], "budget": (80, 200, 2_000)[number % 3]}
        if number > 6:
            fields["usage"] = {"messages": max(len(self.line) - 2, 1), **USAGE}
        fields |= {"delivery": DELIVERIES[number % 5], "client": f"agent-{number % 2}"}
        self.last_request = {"session": "s", "messages": self.line, **fields}
        self.api("render", **self.last_request)

    def answer(self, number: int) -> None:
        name = f"made_{self.step_count}"
        tool_call = call(name, "look", f'{{"at": "ORD-{1000 + number}"}}')
        self.line = [*self.line, assistant(f"I look at ORD-100{number}.", tool_call)]
        if number % 4:
            self.line = [*self.line, result(name, f"ORD-100{number} precedes hub_{name}.")]
        if number % 2:
            self.sync(number)

    def say(self, number: int) -> None:
        self.line = [*self.line, user(f"And what about made_{self.step_count - number}?")]

    def usage(self, number: int) -> None:
        usage: Json = {"messages": max(len(self.line) - number % 4, 1), **USAGE}
        if number > 5:
            usage |= {"delivery": "full", "model": "gpt-4o"}
        self.api.post("record_usage", session="s", usage=usage)

    def sync(self, number: int) -> None:
        self.api("sync", session="s", messages=self.line)

    def rewrite(self, number: int) -> None:
        kept_count = max(1, len(self.line) - number)
        self.line = [*self.line[:kept_count], user(f"Forget that; step {self.step_count}.")]

    def switch(self, number: int) -> None:
        WORKING_SET.clear()
        self.server_index = (self.server_index + 1) % len(self.servers)

    def retry(self, number: int) -> None:
        """Send the last call again, also to another server, as if its answer had been lost."""
        if self.last_request:
            self.servers[number % len(self.servers)]("render", **self.last_request)

    def compact(self, number: int) -> None:
        """Compact the history. The agent may then continue with the text, or with its history."""
        reply = self.api("compact", session="s", messages=self.line, tokens=2_000)
        if number % 2:
            self.line = [self.line[0], user(reply["text"]), user(f"Continue {self.step_count}.")]

    def move(self, number: int) -> None:
        """Export the session, delete it and import it again."""
        export = self.api.post("export_session", session="s")
        if export.status_code == 200:
            self.api("delete_session", session="s")
            self.api("import_session", data=export.json()["reports"][0])

    def share(self, number: int) -> None:
        self.api.post("share_session", session="s")

    def delete(self, number: int) -> None:
        if number > 7:
            self.api.post("delete_session", session="s")


def take_steps(agent: Agent, steps: list[tuple[str, int]]) -> None:
    """Take these steps; `return` continues from an earlier history, or from all but its last
    message."""
    for step, number in steps:
        if step == "return":
            line = agent.lines[number % len(agent.lines)]
            agent.line = line if number % 2 else line[: max(2, len(line) - 1)]
        else:
            agent.take(step, number)


def findings(store: Store, user: User) -> list[StoreFinding]:
    return list(check_owner(store, UUID(user.root), read_problem))


def removals(store: Store, owner: UUID) -> Iterator[tuple[str, UUID | Edge]]:
    """Delete each row of a user in turn, yield its type and key, and insert it again."""
    nodes = store.read("SELECT id, rev, kind, listed, data FROM nodes WHERE owner = ?", (owner,))
    for id, rev, kind, listed, data in nodes:
        if (name := store.kinds.name(kind)[1]) == "Root":
            continue
        with store.transaction() as cursor:
            delete = "DELETE FROM nodes WHERE owner = ? AND id = ?"
            store.run(cursor, (delete, [(owner, store.uuid(id))]))
        yield name, store.uuid(id)
        row = (owner, store.uuid(id), rev, kind, listed, data)
        insert = "INSERT INTO nodes (owner, id, rev, kind, listed, data) VALUES (?, ?, ?, ?, ?, ?)"
        with store.transaction() as cursor:
            store.run(cursor, (insert, [row]))
    edges = store.read("SELECT source, kind, target, data FROM edges WHERE owner = ?", (owner,))
    for source, kind, target, data in edges:
        edge = (store.uuid(source), kind, store.uuid(target))
        store.write(WriteBatch(delete_edges=[(owner, *edge)]))
        yield store.kinds.name(kind)[1], edge
        store.write(WriteBatch(upsert_edges=[(owner, *edge, data)]))


def is_exactly(findings: list[StoreFinding], name: str, key: UUID | Edge) -> bool:
    """Return whether the findings are this missing row, and edges that lack it as an end."""
    if isinstance(key, UUID):
        other_findings = [finding for finding in findings if finding.kind != "dangling"]
        assert all(
            finding.edge and key in finding.edge
            for finding in findings
            if finding.kind == "dangling"
        )
        branch, number, _ = place_of_id(key)
        sentences = {
            "Session": "the node of session",
            "Branch": f"branch {branch}",
            "ModelCall": "the model call with",
            "ShareLink": "",
        }
        sentence = sentences.get(name, f"event {number} of branch {branch}")
        if not sentence:
            return not other_findings
        return (
            len(other_findings) == 1
            and other_findings[0].kind == "missing"
            and other_findings[0].message.startswith(sentence)
        )
    if len(findings) != 1:
        return False
    (finding,) = findings
    message = f"1 edges of what the model call with {place_of_id(key[0])[1]}"
    return (
        finding.edge == key
        or (finding.node == key[2] and finding.kind == "orphan")
        or (finding.node == key[0] and finding.message.startswith(message[:31]))
    )


LIMITS = settings(
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
EXAMPLES = int(os.environ.get("DAMAGED_EXAMPLES", "20"))


@settings(LIMITS, max_examples=EXAMPLES)
@given(steps=STEPS)
def test_check_finds_nothing_after_any_calls(
    service: Service, steps: list[tuple[str, int]]
) -> None:
    alice = service.new_user()
    take_steps(Agent([alice.api]), steps)
    with closing(open_store(alice.data)) as store:
        assert findings(store, alice) == []


@settings(LIMITS, max_examples=max(EXAMPLES // 5, 4))
@given(steps=STEPS)
def test_check_finds_exactly_the_missing_row(
    service: Service, steps: list[tuple[str, int]]
) -> None:
    alice = service.new_user()
    take_steps(Agent([alice.api]), [*steps, ("render", 1), ("usage", 1)])
    with closing(open_store(alice.data)) as store:
        for name, key in removals(store, UUID(alice.root)):
            problems = findings(store, alice)
            assert is_exactly(problems, name, key), (
                name,
                key,
                [problem.message for problem in problems],
            )
        assert findings(store, alice) == []


@pytest.mark.slow
@settings(LIMITS, max_examples=max(EXAMPLES // 2, 10))
@given(steps=st.lists(STEPS, min_size=2, max_size=2))
def test_check_finds_nothing_after_calls_to_two_servers(
    service: Service, other: Server, steps: list[list[tuple[str, int]]]
) -> None:
    """Two agents switch between servers; then both call at once, on one session."""
    alice = service.new_user()
    with other.api(alice.api.token) as remote:
        agents = Agent([alice.api, remote]), Agent([remote, alice.api])
        for agent, own_steps in zip(agents, steps, strict=True):
            take_steps(agent, own_steps)
        with ThreadPoolExecutor(2) as threads:
            list(
                threads.map(
                    lambda agent: [agent.take("render", number) for number in (1, 2, 7)], agents
                )
            )
    with closing(open_store(alice.data)) as store:
        assert findings(store, alice) == []
