"""The graph in the SQLite file: what happened, in order, joined to what it used."""

import importlib
from typing import Any

from tests.api.conftest import User
from tests.support.transcripts import assistant, call, result, user

CANARY = "CANARY_5512"
FLOW = [
    {"role": "system", "content": "Help."},
    user("Find the order of Ann."),
    assistant(None, call("u", "find_user", "{}"), call("t", "time", "{}")),
    result("t", "12:00"),
    result("u", "user_17 ann@example.com"),
    assistant("I list orders of user_17.", call("o", "list_orders", '{"user": "user_17"}')),
    result("o", "ORD-500 and ORD-501"),
    assistant("It is ORD-500."),
]


def test_a_session_is_messages_calls_and_complete_results(alice: User) -> None:
    alice.api("render", session="s", messages=FLOW, budget=64)
    graph = alice.graph()
    graph.check()
    assert graph.counts == {
        "Session": 1,
        "Branch": 1,
        "Message": 5,
        "ToolCall": 3,
        "ToolResult": 3,
        "ModelCall": 1,
        "Owns": 1,
        "HasBranch": 1,
        "Begins": 1,
        "Next": 10,
        "Returned": 3,
        "Reuse": 3,
        "Waiting": 1,
        "Shows": 2,
    }
    results = [node.fields for node in graph.of("ToolResult")]
    assert [fields["text"] for fields in results] == [FLOW[place]["content"] for place in (3, 4, 6)]
    assert [fields["position"] for fields in results] == [3, 4, 6]
    assert [fields["turn"] for fields in results] == [1, 1, 2]
    assert [fields["name"] for fields in results] == ["time", "find_user", "list_orders"]
    assert all(fields["tokens"] > 4 and fields["timestamp"] > 1.7e9 for fields in results)
    assert all(fields["embedding"] and fields["embedding_model"] for fields in results)


def test_order_is_stored_as_numbers_and_edges(alice: User) -> None:
    for end in range(1, len(FLOW) + 1):
        alice.api("sync", session="s", messages=FLOW[:end])
    graph = alice.graph()
    graph.check()
    steps = {source.fields["number"]: target for source, target, _ in graph.pairs("Next")}
    ((branch, event, _),) = graph.pairs("Begins")
    line = [event]
    while (number := line[-1].fields["number"]) in steps:
        line.append(steps[number])
    assert [node.fields["number"] for node in line] == list(range(11))
    kinds = "Message Message Message ToolCall ToolCall ToolResult ToolResult"
    assert [node.kind for node in line[:7]] == kinds.split()
    assert (branch.fields["events"], branch.fields["messages"]) == (11, len(FLOW))


def test_calls_are_joined_to_results_and_uses_to_sources(alice: User) -> None:
    alice.api("sync", session="s", messages=FLOW)
    graph = alice.graph()
    returned = {(c.fields["name"], r.fields["position"]) for c, r, _ in graph.pairs("Returned")}
    assert returned == {("find_user", 4), ("list_orders", 6), ("time", 3)}
    uses = [
        (use.kind, use.fields["position"], source.fields["position"], fields["values"])
        for use, source, fields in graph.pairs("Reuse")
    ]
    assert sorted(uses) == [
        ("Message", 5, 4, ["user_17"]),
        ("Message", 7, 6, ["ORD-500"]),
        ("ToolCall", 5, 4, ["user_17"]),
    ]


def test_a_branch_shares_what_it_does_not_rewrite(alice: User) -> None:
    alice.api("sync", session="s", messages=FLOW)
    before = alice.graph().counts
    alice.api("sync", session="s", messages=[*FLOW[:5], assistant("Ask user_17."), user("Why?")])
    graph = alice.graph()
    graph.check()
    grown = {"Branch": 1, "HasBranch": 1, "Begins": 1, "Message": 2, "Next": 2, "Reuse": 1}
    assert graph.counts - before == grown
    (event,) = [e for b, e, _ in graph.pairs("Begins") if b.fields["number"] == 1]
    assert event.fields["text"] == "Ask user_17."
    (before_it,) = [s for s, target, _ in graph.pairs("Next") if target.id == event.id]
    assert before_it.fields["position"] == 4
    (source,) = [s for use, s, _ in graph.pairs("Reuse") if use.id == event.id]
    assert source.fields["position"] == 4


def test_labels_tell_what_a_node_is_and_never_its_contents(alice: User) -> None:
    messages = [
        user(CANARY),
        assistant(CANARY, call("a", "look", CANARY)),
        result("a", f"{CANARY} " * 2000),
        assistant(f"{CANARY} it is."),
    ]
    alice.api("render", session="s", messages=messages, budget=500)
    graph = alice.graph()
    labels = {label(node.kind, node.fields) for node in graph.nodes.values()}
    assert CANARY in str(graph.nodes)
    assert not [text for text in labels if CANARY in text or len(text) > 100]
    assert {"Session s · 1 branch"} <= labels
    assert "Branch 0 · 4 messages, 2 turns" in labels
    assert [text for text in labels if text.startswith("user message 0 · turn 1 · ")]
    assert [text for text in labels if text.startswith("call look · turn 1 · ")]
    assert [text for text in labels if text.startswith("result 2 of look · turn 1 · ")]


def label(kind: str, fields: dict[str, Any]) -> str:
    for module in ("nodes.session", "nodes.events", "nodes.calls"):
        if node := getattr(importlib.import_module(module), kind, None):
            return repr(node(**fields))
    raise LookupError(kind)
