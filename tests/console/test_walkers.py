"""The walkers behind the console, as the page calls them."""

import random
from typing import Any

import pytest

from tests.console.conftest import LARGE, ORDERS, Service

pytestmark = pytest.mark.slow


def visible(turn: dict[str, Any], positions: list[int]) -> set[int]:
    pairs = zip(turn["complete"][::2], turn["complete"][1::2], strict=True)
    return {positions[n] for first, length in pairs for n in range(first, first + length)}


def agrees_with_explain(service: Service, session: str, tries: int) -> None:
    turns = service.timeline(session)
    positions = service("timeline", session=session)["results"]["positions"]
    for turn in random.Random(1).sample(turns, min(tries, len(turns))):
        told = service("explain", session=session, turn=turn["turn"])
        complete = {one["position"] for one in told["results"] if one["shown"] == "complete"}
        assert visible(turn, positions) == complete
        assert (turn["before"], turn["after"]) == (
            told["tokens"]["before"],
            told["tokens"]["after"],
        )
        assert turn["results"] == len(told["results"])


@pytest.mark.slow
def test_the_newest_calls_come_first_where_they_are_asked_for(service: Service) -> None:
    turns = service.timeline(ORDERS)
    newest = service("timeline", session=ORDERS, start=-9, limit=10)
    assert newest["turns"] == turns[-10:]
    assert len(newest["results"]["positions"]) == turns[-1]["results"]
    assert newest["next"] is None
    assert service("timeline", session=ORDERS, start=-1000)["turns"] == turns


def test_the_timeline_agrees_with_explain(service: Service) -> None:
    agrees_with_explain(service, ORDERS, 12)


def test_show_call_is_explain_with_every_message(service: Service) -> None:
    fields: dict[str, Any] = {"session": ORDERS, "turn": 33, "budget": 2500, "policy": "reuse"}
    view = service("show_call", **fields)
    assert view["explain"] == service("explain", **fields)
    own = service.runs[ORDERS]
    before = [one["position"] for one in view["messages"]]
    assert before == list(range(len(before)))
    assert own[len(before)]["role"] == "assistant"
    for line in view["messages"]:
        text = own[line["position"]]["content"] or ""
        assert line["text"] == (text if line["whole"] else text[: len(line["text"])])


def test_the_graph_has_the_uses_of_explain(service: Service) -> None:
    graph = service("reuse_graph", session=ORDERS, turn=40)
    operations = {one["event"]: one for one in graph["operations"]}
    drawn = {
        (graph["results"]["positions"][edge["result"]], operations[edge["operation"]]["position"])
        for edge in graph["edges"]
    }
    told = service("explain", session=ORDERS, turn=40)["results"]
    assert drawn == {(row["position"], use["position"]) for row in told for use in row["uses"]}


def test_a_value_is_traced_to_all_that_hold_and_use_it(service: Service) -> None:
    run = service.runs[ORDERS]
    graph = service("reuse_graph", session=ORDERS)
    for edge in graph["edges"][::9]:
        value = edge["values"][0]
        trace = service("trace_value", session=ORDERS, value=value)
        positions = [graph["results"]["positions"][number] for number in trace["holders"]]
        tools = [
            p for p, one in enumerate(run) if one["role"] == "tool" and value in one["content"]
        ]
        assert positions == tools
        assert trace["first"] == edge["result"]
        assert edge["operation"] in [use["event"] for use in trace["uses"]]


def test_policies_are_compared_on_the_same_calls(service: Service) -> None:
    names = ["contextrender", "prune", "full"]
    view = service.complete("compare_policies", session=ORDERS, policies=names)
    assert [one["policy"] for one in view["policies"]] == names
    own, _, full = view["policies"]
    made = service.complete("savings", session=ORDERS)["totals"]
    told = ("turns", "last", "prompt", "full", "cached", "output", "events", "seen", "full_cost")
    assert {name: own[name] for name in told} == {name: made[name] for name in told}
    assert made["cost"] == own["cost"] is None and made["unpriced"] == made["turns"]
    prices = ["*:input=2,cached=0.5,output=8"]
    priced = service.complete("compare_policies", session=ORDERS, policies=names, prices=prices)
    made = service.complete("savings", session=ORDERS, prices=prices)["totals"]
    assert made["cost"] == pytest.approx(priced["policies"][0]["cost"])
    assert made["full_cost"] == pytest.approx(priced["policies"][2]["cost"])
    assert full["prompt"] == full["full"] and full["recall"] == 1.0
    assert len({one["full"] for one in view["policies"]}) == 1


@pytest.mark.parametrize(
    ("walker", "fields"),
    [
        ("timeline", {"start": -1001}),
        ("misses", {"start": 0}),
        ("timeline", {"limit": 1001}),
        ("read_message", {"position": 1, "start": -1}),
        ("read_message", {"position": 1, "characters": 0}),
        ("savings", {"policy": "nothing"}),
        ("savings", {"budget": 3}),
        ("compare_policies", {"policies": ["contextrender", "nothing"]}),
        ("show_call", {"parameters": {"weight_recency": -1}}),
    ],
)
def test_bad_input_is_refused(service: Service, walker: str, fields: dict[str, Any]) -> None:
    reply = service.post(walker, session=ORDERS, **fields)
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "invalid_request")


@pytest.mark.parametrize(
    ("walker", "fields"),
    [
        ("timeline", {"branch": 9}),
        ("show_call", {"turn": 99_999}),
        ("reuse_graph", {"turn": 0}),
        ("read_message", {"position": 99_999}),
        ("trace_value", {"value": "NOT_THERE_1"}),
    ],
)
def test_what_is_not_there_is_told(service: Service, walker: str, fields: dict[str, Any]) -> None:
    reply = service.post(walker, session=ORDERS, **fields)
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not_found")


def test_looking_back_stores_nothing(service: Service) -> None:
    before = service("inspect_session", session=ORDERS)
    service("timeline", session=ORDERS)
    service("show_call", session=ORDERS, budget=500)
    service("compare_policies", session=ORDERS, budget=900)
    assert service("inspect_session", session=ORDERS) == before


def test_the_misses_of_a_session_are_those_of_its_timeline(service: Service) -> None:
    view = service("misses", session=LARGE, limit=40)
    turns = [turn for turn in service.timeline(LARGE) if turn["turn"] <= view["turns"]]
    found = {(miss["turn"], miss["result"]) for miss in view["misses"]}
    assert found == {(turn["turn"], result) for turn in turns for result in turn["missed"]}
    assert view["next"] == view["turns"] + 1


def test_a_miss_has_remedies(service: Service) -> None:
    miss = service.first_miss(LARGE)
    told = service("explain", session=LARGE, turn=miss["turn"])
    (row,) = [row for row in told["results"] if row["position"] == miss["position"]]
    assert {name: row[name] for name in ("shown", "reason", "left", "after", "cost", "name")} == {
        name: miss[name] for name in ("shown", "reason", "left", "after", "cost", "name")
    }
    asked = {"session": LARGE, "turn": miss["turn"], "position": miss["position"]}
    found = service.complete("remedies", **asked)
    assert found["budget"] in found["tried"]
    fixed = service("explain", session=LARGE, turn=miss["turn"], budget=found["tried"][-1])
    (row,) = [row for row in fixed["results"] if row["position"] == miss["position"]]
    assert row["shown"] == "complete"
    refused = service.post("remedies", session=LARGE, turn=miss["turn"], position=0)
    assert refused.status_code == 404
