"""The stored graph: events in order, and edges to results, branches and uses."""

import importlib
from typing import Any
from uuid import UUID

from contextrender_bridge.runtime.session_lease import WORKING_SET

from tests.api.conftest import User
from tests.api.graph import reading
from tests.support.plain_graph import check_graph
from tests.support.transcripts import agent_run, assistant, call, render_calls, result, step, user

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


def test_session_is_stored_as_messages_calls_and_results(alice: User) -> None:
    alice.api("render", session="s", messages=FLOW, budget=64)
    graph = alice.graph()
    graph.check()
    once = ("Session", "Branch", "ModelCall", "Owns", "HasBranch", "HasFirstEvent", "HasFirstCall")
    events = {"Message": 5, "ToolCall": 3, "ToolResult": 3, "Next": 10}
    edge_counts = {"HasResult": 3, "Reuse": 3, "ShowsComplete": 2}
    assert graph.counts == dict.fromkeys(once, 1) | events | edge_counts
    results = [node.fields for node in graph.of("ToolResult")]
    assert [fields["text"] for fields in results] == [FLOW[place]["content"] for place in (3, 4, 6)]
    assert [fields["position"] for fields in results] == [3, 4, 6]
    assert [fields["turn"] for fields in results] == [1, 1, 2]
    assert [fields["name"] for fields in results] == ["time", "find_user", "list_orders"]
    assert all(fields["tokens"] > 4 and fields["timestamp"] > 1.7e9 for fields in results)
    assert all(fields["embedding"] and fields["embedding_model"] for fields in results)


def test_order_answers_uses_and_branches_are_edges(alice: User) -> None:
    for end in range(1, len(FLOW) + 1):
        alice.api("sync", session="s", messages=FLOW[:end])
    before = alice.graph().counts
    rewritten = [*FLOW[:5], assistant("Ask user_17."), user("Why?")]
    alice.api("sync", session="s", messages=rewritten)
    graph = alice.graph()
    check_graph(graph, {"s": [FLOW, rewritten]})
    grown = {"Branch": 1, "HasBranch": 1, "HasFirstEvent": 1, "Message": 2, "Next": 2, "Reuse": 1}
    assert graph.counts - before == grown
    uses = [
        (use.kind, use.fields["position"], source.fields["position"], fields["values"])
        for use, source, fields in graph.pairs("Reuse")
    ]
    assert ("ToolCall", 5, 4, ["user_17"]) in uses


def test_node_labels_have_no_contents(alice: User) -> None:
    messages = [
        user(CANARY),
        assistant(CANARY, call("a", "look", CANARY)),
        result("a", f"{CANARY} " * 2000),
        assistant(f"{CANARY} it is."),
    ]
    alice.api("render", session="s", messages=messages, budget=500)
    modules = [importlib.import_module(f"nodes.{name}") for name in ("session", "events", "calls")]
    kinds = {name: kind for module in modules for name, kind in vars(module).items()}
    labels = [repr(kinds[node.kind](**node.fields)) for node in alice.graph().nodes.values()]
    assert not [text for text in labels if CANARY in text or len(text) > 100]
    assert {"Session s · 1 branch", "Branch 0 · 4 messages, 2 turns"} <= {*labels}
    for beginning in ("user message 0", "call look", "result 2 of look"):
        assert [text for text in labels if text.startswith(f"{beginning} · turn 1 · ")]


RUN = agent_run(12)
USES = 12


def test_loaded_history_reads_reuse_from_edges(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    assert alice.api("inspect_session", session="s")["uses"]
    kind = "(SELECT number FROM kinds WHERE name = 'Reuse')"
    with reading(alice.data) as run:
        run(f"DELETE FROM edges WHERE owner = ? AND kind = {kind}", UUID(alice.root))
    WORKING_SET.clear()
    assert alice.api("inspect_session", session="s")["uses"] == 0
    state = WORKING_SET.get((alice.root, "s"))
    assert state is not None
    assert set(state.histories[0].reuse.scores()) == {0.0}


def history(uses: int) -> list[dict[str, Any]]:
    messages = [user("Who is it?"), *step("c", "find", "{}", "user_4711")]
    for number in range(uses):
        messages += step(f"c{number}", "look", '{"at": "user_4711"}', "nothing")
    return messages


def test_result_with_many_uses_is_stored_recalled_and_deleted(alice: User) -> None:
    for uses in range(USES + 1):
        alice.api("sync", session="slow", messages=history(uses))
    alice.api("sync", session="quick", messages=history(USES))
    slow, quick = (alice.api("explain", session=name)["results"] for name in ("slow", "quick"))
    assert slow == quick
    assert slow[0]["reuse"] == USES

    # Recall and deletion work, too.
    (result,) = alice.api("recall", session="slow", results=[2])["results"]
    assert (result["message"]["content"], result["arguments"]) == ("user_4711", "{}")
    for name in ("slow", "quick"):
        alice.api("delete_session", session=name)
    assert alice.graph().counts == {}


def test_values_of_user_messages_name_the_message(alice: User) -> None:
    """Only messages before the use count. Values that no message said come first."""
    run = [
        *FLOW[:-1],
        assistant("It is ORD-500 of user_17."),
        user("I mean ORD-501, and A_1 is mine."),
        *step("a", "get_order", '{"id": "ORD-501"}', "A_1: ORD-501 is late", "I look."),
        assistant("ORD-500 and ORD-501 of A_1 are ready."),
    ]
    alice.api("sync", session="s", messages=run)
    graph = alice.api("reuse_graph", session="s")
    position_of = {operation["event"]: operation["position"] for operation in graph["operations"]}
    edges = [
        (
            position_of[edge["operation"]],
            list(zip(edge["values"], edge["source_messages"], strict=True)),
        )
        for edge in graph["edges"]
    ]
    final = len(run) - 1
    assert (7, [("ORD-500", -1)]) in edges
    assert (9, [("ORD-501", 8)]) in edges
    assert (final, [("ORD-500", -1), ("ORD-501", 8)]) in edges
    assert graph["messages"] == [{"position": 8, "turn": 4, "role": "user"}]


def test_miss_names_user_message_with_its_values(alice: User) -> None:
    """The text of the message left the prompt with its turn, because text exceeds the budget."""
    run = [user("Begin."), *step("a", "look", "{}", "nothing yet", "I look."), user("See ORD-777.")]
    run += step("b", "look", "{}", "ORD-777 weighs KG-5512", "I look again.")
    for turn in range(6):
        run += [assistant(f"Some plain words. {'More of them. ' * 30}"), user(f"Go on {turn}.")]
    render_calls(alice.api, "s", [*run, assistant("ORD-777 weighs KG-5512.")], budget=400)
    (miss,) = alice.api("misses", session="s")["misses"]
    assert dict(zip(miss["values"], miss["source_messages"], strict=True)) == {
        "ORD-777": 3,
        "KG-5512": -1,
    }


def test_trace_finds_results_and_uses_of_a_value(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    graph = alice.api("reuse_graph", session="s")
    for edge in graph["edges"][::9]:
        value = edge["values"][0]
        trace = alice.api("trace_value", session="s", value=value)
        positions = [graph["results"]["positions"][number] for number in trace["holders"]]
        tools = [
            position
            for position, message in enumerate(RUN)
            if message["role"] == "tool" and value in message["content"]
        ]
        assert positions == tools
        assert trace["first_result"] == edge["result"]
        assert edge["operation"] in [use["event"] for use in trace["uses"]]
