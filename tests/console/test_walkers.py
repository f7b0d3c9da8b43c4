"""The walkers behind the console, as the page calls them."""

import pytest

from tests.console.conftest import LARGE, ORDERS, Service

pytestmark = pytest.mark.slow


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


def test_a_miss_has_remedies(service: Service) -> None:
    miss = next(service.misses(LARGE))
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
