"""Turns, results and uses of one session are the same numbers wherever they are told."""

import pytest

from engine.call.record import numbers_in
from tests.api.conftest import User
from tests.support.transcripts import agent_run, assistant, call, called, result, user

RUN = [
    *agent_run(14),
    # Two operations of one turn that draw on the same result: one use of a turn, two edges.
    assistant("ORD-1003 again.", call("a", "get_order", '{"order_id": "ORD-1003"}')),
    result("a", "order ORD-1003 is where it was"),
]


@pytest.mark.parametrize("waiting", [False, True])
def test_every_view_counts_alike(alice: User, waiting: bool) -> None:
    run = [*RUN, assistant("ORD-1003 it is."), *([user("And ORD-1004?")] * waiting)]
    called(alice.api, "s", run, budget=700)
    answers = sum(message["role"] == "assistant" for message in run)
    results = sum(message["role"] == "tool" for message in run)
    (listed,) = alice.api("list_sessions")["sessions"]
    inspected = alice.api("inspect_session", session="s")
    timeline = alice.api("timeline", session="s")
    rough = alice.api("glimpse", session="s", limit=200)
    graph = alice.api("reuse_graph", session="s")
    explained = alice.api("explain", session="s")["results"]
    misses = alice.api("misses", session="s")
    (saved,) = alice.api("total_savings")["rows"]

    assert timeline["waiting"] is rough["waiting"] is waiting
    for last in (timeline["last"], rough["last"], graph["last"], misses["last"]):
        assert last - waiting == answers
    assert len(timeline["turns"]) - waiting == len(rough["turns"]) == saved["calls"] == answers
    for counted in (listed, inspected["session"]):
        assert (counted["turns"], counted["results"]) == (answers, results)
        assert counted["counted"]["calls"] == answers
    for view in (timeline, rough, graph):
        assert len(view["results"]["positions"]) == results
    assert len(explained) == sum(tool["results"] for tool in inspected["tools"]) == results

    edges = {(edge["operation"], edge["result"]) for edge in graph["edges"]}
    assert len(edges) == inspected["uses"] == sum(len(row["uses"]) for row in explained)
    turn_of = {one["event"]: one["turn"] for one in graph["operations"]}
    uses = {(turn["turn"], used) for turn in timeline["turns"] for used in turn["uses"]}
    assert uses == {(turn_of[operation], used) for operation, used in edges}
    assert uses == {(turn["turn"], used) for turn in rough["turns"] for used in turn["uses"]}
    assert len(uses) == saved["drawn"] == listed["counted"]["drawn"] < len(edges)
    assert sum(tool["reused"] for tool in inspected["tools"]) == len({used for _, used in uses})

    whole = {turn["turn"]: set(numbers_in(turn["complete"])) for turn in timeline["turns"]}
    seen = {(turn, used) for turn, used in uses if used in whole[turn]}
    assert len(seen) == saved["seen"] == listed["counted"]["seen"] < len(uses)
    missed = {(turn["turn"], one) for turn in timeline["turns"] for one in turn["missed"]}
    assert missed == {(miss["turn"], miss["result"]) for miss in misses["misses"]}
