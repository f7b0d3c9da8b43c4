"""The Reuse edges in the database are the truth: a branch comes back from nothing but the graph."""

from math import fsum

import pytest

from engine.text.values import extract_values
from graph.sessions.caches import WORKING_SET
from tests.api.conftest import User
from tests.api.graph import Graph, Node, drop_edges
from tests.api.transcripts import agent_run, assistant, user

RUN = agent_run(12)
VALUE = "ORD-1001"


def line_of(graph: Graph, branch: int) -> list[Node]:
    """A branch's events in order, by Begins and Next alone."""
    begins = {b.fields["number"]: e for b, e, _ in graph.pairs("Begins")}
    before = {target.id: source for source, target, _ in graph.pairs("Next")}
    after: dict[str, list[Node]] = {}
    for source, target, _ in graph.pairs("Next"):
        after.setdefault(source.id, []).append(target)
    line = [begins[branch]]
    while line[0].id in before:
        line.insert(0, before[line[0].id])
    others = {event.id for number, event in begins.items() if number != branch}
    while ahead := [e for e in after.get(line[-1].id, []) if e.id not in others]:
        line.append(*ahead)
    return line


@pytest.mark.parametrize("branch", [0, 1])
def test_a_branch_is_rebuilt_from_nodes_and_edges_alone(alice: User, branch: int) -> None:
    for stop in range(3, len(RUN) + 1, 4):
        alice.api("sync", session="s", messages=RUN[:stop])
    alice.api("sync", session="s", messages=RUN)
    alice.api("sync", session="s", messages=[*RUN[:9], assistant(RUN[2]["content"]), user("Why?")])
    told = alice.api("explain", session="s", branch=branch)
    state = WORKING_SET.get((alice.root, "s"))
    assert state is not None
    kept = state.histories[branch]

    graph = alice.graph()
    line = line_of(graph, branch)
    events = {event.id for event in line}
    results = [event for event in line if event.kind == "ToolResult"]
    held = [extract_values(event.fields["text"]) for event in results]
    edges = [
        (operation, result, fields["values"])
        for operation, result, fields in graph.pairs("Reuse")
        if operation.id in events
    ]
    assert edges
    turns = [e for e in line if e.kind == "Message" and e.fields["role"] == "assistant"]
    assert told["turn"] == kept.turn == len(turns) + 1
    number = {result.id: place for place, result in enumerate(results)}
    assert sorted((u.operation, u.result, u.values) for u in kept.reuse.uses) == sorted(
        (operation.fields["number"], number[result.id], tuple(values))
        for operation, result, values in edges
    )
    c_kept = kept.reuse.scores()
    for result, row in zip(results, told["results"], strict=True):
        used = [(operation, values) for operation, target, values in edges if target is result]
        c = fsum(1 / sum(v in some for some in held) for _, values in used for v in values)
        assert row["reuse"] == pytest.approx(c, rel=1e-14)
        assert c_kept[number[result.id]] == pytest.approx(c, rel=1e-14)
        assert row["age"] == told["turn"] - result.fields["turn"]
        assert result.fields["turn"] == kept.results.turn[number[result.id]]
        found = [
            (operation.fields["position"], operation.fields.get("name", ""), values)
            for operation, values in sorted(used, key=lambda use: use[0].fields["number"])
        ]
        reported = [
            (u["position"], u["name"], [v["value"] for v in u["values"]]) for u in row["uses"]
        ]
        assert reported == found


def reported(alice: User, session: str) -> list[float]:
    """All c that explain reports, and how many uses it, the graph and a value's trace do."""
    rows = alice.api("explain", session=session)["results"]
    edges = alice.api("reuse_graph", session=session)["edges"]
    traced = alice.api("trace_value", session=session, value=VALUE)["uses"]
    told = [sum(len(row["uses"]) for row in rows), len(edges), len(traced)]
    return [fsum(row["reuse"] for row in rows), *told]


def test_what_is_reported_of_reuse_is_read_from_the_edges(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    drop_edges(alice.data, alice.root, "Reuse")
    alice.api("sync", session="t", messages=RUN)
    assert reported(alice, "s") == [0, 0, 0, 0]
    assert min(reported(alice, "t")) > 0


def test_the_last_answer_counts_in_the_graph_as_in_the_session(alice: User) -> None:
    answered = [*RUN, {"role": "assistant", "content": f"It was {VALUE}."}]
    alice.api("sync", session="s", messages=answered)
    edges = alice.api("reuse_graph", session="s")["edges"]
    assert len(edges) == alice.api("inspect_session", session="s")["uses"]
    assert len(edges) > len(alice.api("reuse_graph", session="s", turn=1)["edges"])


def test_a_history_read_from_the_graph_takes_its_reuse_from_the_edges(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    before = alice.api("inspect_session", session="s")
    assert before["uses"]
    WORKING_SET.clear()
    assert alice.api("inspect_session", session="s") == before
    drop_edges(alice.data, alice.root, "Reuse")
    WORKING_SET.clear()
    assert alice.api("inspect_session", session="s")["uses"] == 0
    state = WORKING_SET.get((alice.root, "s"))
    assert state is not None
    assert set(state.histories[0].reuse.scores()) == {0.0}
