"""Check of a complete store against the acknowledged histories, by independent rules.

`slow_rules` defines values, uses, answers and turns; the engine is not used.
"""

import json
from functools import cache
from typing import Any

from contextrender_bridge.base.wire import Json

from tests.api.graph import Graph, Node
from tests.support import slow_rules

EVENTS = ("Message", "ToolCall", "ToolResult")
Edges = set[tuple[Any, ...]]


@cache
def _recomputed(line: str) -> tuple[list[tuple[str, int, int, str]], Edges]:
    """Return the events of a history (kind, position, turn, text), and the edges between their
    numbers."""
    messages: list[Json] = json.loads(line)
    turns = slow_rules.turns(messages)
    events: list[tuple[str, int, int, str]] = []
    first: list[int] = []
    for position, message in enumerate(messages):
        first.append(len(events))
        kind = "ToolResult" if message["role"] == "tool" else "Message"
        events.append((kind, position, turns[position], slow_rules.text_of(message["content"])))
        for call in message.get("tool_calls") or []:
            arguments = slow_rules.name_and_arguments(call)[1]
            events.append(("ToolCall", position, turns[position], arguments))
    edges: Edges = {("Next", at, at + 1) for at in range(len(events) - 1)}
    for answer, (asking, place) in slow_rules.answers(messages).items():
        edges.add(("HasResult", first[asking] + 1 + place, first[answer]))
    for operation, answer, values in slow_rules.uses(messages):
        edges.add(("Reuse", operation, first[answer], *sorted(values)))
    return events, edges


def check_graph(graph: Graph, sessions: dict[str, list[list[Json]]]) -> None:
    """Check that the graph has exactly the events, edges and branches of these sessions."""
    graph.check()
    branches: dict[str, dict[int, Node]] = {}
    for session, branch, _ in graph.pairs("HasBranch"):
        branches.setdefault(session.fields["key"], {})[branch.fields["number"]] = branch
    assert {key: sorted(by_number) for key, by_number in branches.items()} == {
        key: list(range(len(lines))) for key, lines in sessions.items()
    }
    seen_ids: set[str] = set()
    expected: Edges = set()
    for key, lines in sessions.items():
        for number, messages in enumerate(lines):
            line = _line(graph, branches[key], number)
            events, edges = _recomputed(json.dumps(messages))
            stored_events = [
                (e.kind, *(e.fields[name] for name in ("position", "turn", "text"))) for e in line
            ]
            assert stored_events == events, (key, number)
            assert [event.fields["number"] for event in line] == list(range(len(line)))
            fields = branches[key][number].fields
            assert (fields["messages"], fields["events"]) == (len(messages), len(line))
            ids = [event.id for event in line]
            seen_ids |= {*ids}
            expected |= {(kind, ids[a], ids[b], *values) for kind, a, b, *values in edges}
    assert seen_ids == {node.id for node in graph.nodes.values() if node.kind in EVENTS}
    stored_edges = [
        (edge.kind, edge.source, edge.target, *sorted(edge.fields.get("values", [])))
        for edge in graph.edges
        if edge.kind in ("Next", "HasResult", "Reuse")
    ]
    assert len(stored_edges) == len({*stored_edges})
    assert {*stored_edges} == expected


def _line(graph: Graph, branches: dict[int, Node], number: int) -> list[Node]:
    """Return a branch's events in order, found by edges from its last event."""
    begins: dict[str, str] = {}
    for edge in graph.edges:
        if edge.kind == "HasFirstEvent":
            assert edge.source not in begins
            begins[edge.source] = edge.target
    after: dict[str, list[str]] = {}
    before: dict[str, str] = {}
    for edge in graph.edges:
        if edge.kind == "Next":
            after.setdefault(edge.source, []).append(edge.target)
            assert edge.target not in before
            before[edge.target] = edge.source
    first_event = begins[branches[number].id]
    forks = {begins[branch.id] for at, branch in branches.items() if at != number}
    line = [first_event]
    while line[0] in before:
        line.insert(0, before[line[0]])
        assert line[0] not in line[1:]
    while ahead := [event for event in after.get(line[-1], []) if event not in forks]:
        (event,) = ahead
        line.append(event)
    return [graph.nodes[event] for event in line]
