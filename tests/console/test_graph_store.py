"""The endpoints behind the console, and the graph store, which only its owner can read."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.console.conftest import ORDERS, Console, Service, complete
from tests.console.looking import expect

pytestmark = pytest.mark.slow


def look(service: Service, **fields: Any) -> Any:
    return service("get_node", **fields)


def edges(service: Service, id: str) -> Iterator[Any]:
    for page in service.pages("get_node", id=id):
        yield from page["edges"]


def test_following_edges_reaches_the_whole_session(service: Service) -> None:
    first = look(service, session="nightly-02")
    visited, kinds, open_ids = set(), Counter[str](), [first["id"]]
    while open_ids:
        node = look(service, id=open_ids.pop())
        if node["id"] in visited or node["kind"] == "Root":
            continue
        visited.add(node["id"])
        kinds[node["kind"]] += 1
        edge_counts = Counter((e["kind"], e["outgoing"]) for e in edges(service, node["id"]))
        assert edge_counts == {(d["kind"], d["outgoing"]): d["count"] for d in node["degrees"]}
        open_ids += [edge["id"] for edge in node["edges"]]
    reply = service("inspect_session", session="nightly-02")["branches"][0]
    assert kinds["ToolResult"] == kinds["ToolCall"] == reply["results"]
    assert kinds["Message"] == reply["messages"] - reply["results"]
    assert kinds["Session"] == kinds["Branch"] == 1


def test_node_has_its_fields_with_long_ones_shortened(service: Service) -> None:
    root = look(service)
    assert root["kind"] == "Root" and root["id"] == root["owner"]
    assert {edge["kind"] for edge in root["edges"]} == {"Owns"}
    session = look(service, session=ORDERS)
    assert {field["name"]: field["text"] for field in session["fields"]}["key"] == ORDERS
    vectors = [
        field
        for edge in edges(service, event_before_a_result(service)["id"])
        if edge["end"] == "ToolResult"
        for field in look(service, id=edge["id"])["fields"]
        if field["name"] == "embedding"
    ]
    assert vectors and all(vector["kind"] == "bytes" and vector["text"] == "" for vector in vectors)


def event_before_a_result(service: Service) -> Any:
    session = look(service, session=ORDERS)
    node = look(service, id=next(e["id"] for e in session["edges"] if e["kind"] == "HasBranch"))
    while node["kind"] != "ToolCall":
        ahead = [
            e for e in node["edges"] if e["kind"] in ("HasFirstEvent", "Next") and e["outgoing"]
        ]
        node = look(service, id=ahead[-1]["id"])
    return node


def test_another_users_node_is_404(service: Service, other: str) -> None:
    system = "00000000-0000-0000-0000-000000000000"
    for id in (look(service, session=ORDERS)["id"], look(service)["id"], system):
        service.of(other).refused("get_node", 404, "not_found", id=id)
    service.of(other).refused("get_node", 404, "not_found", session=ORDERS)
    for wrong in ({"id": "x"}, {"start": -1}):
        service.refused("get_node", 422, "invalid_request", **wrong)


def test_edges_are_followed_by_click(console: Console) -> None:
    page = console.page
    page.get_by_role("link", name="Graph store").click()
    page.get_by_role("region", name="Edges").get_by_role("link", name=ORDERS).click()
    edge_links = page.get_by_role("region", name="Edges").get_by_role("link")
    edge_links.filter(has_text="Branch 0").click()
    expect(page.locator("main h2")).to_contain_text("Branch 0")
    page.get_by_role("button", name="→ HasFirstEvent 1").click()
    expect(edge_links).to_have_count(1)
    edge_links.first.click()
    expect(page.locator("main h2")).to_contain_text("message 0")
    assert look(console.service, id=page.url.rpartition("/")[2])["kind"] == "Message"
    edges = event_before_a_result(console.service)["edges"]
    wide = max(edges, key=lambda edge: edge["kind"] == "HasResult")
    page.evaluate("where => { location.hash = where }", f"#/store/{wide['id']}")
    stored_node = look(console.service, id=wide["id"])
    expect(edge_links).to_have_count(len(stored_node["edges"]))
    page.get_by_label("A node’s id").fill(f"session:{ORDERS}")
    page.keyboard.press("Enter")
    expect(page.locator("main h2")).to_contain_text("Session " + ORDERS)


def test_graph_data_has_format_of_jac_viewer(service: Service, other: str) -> None:
    """`/graph/data` returns the caller's root or a requested node, in pages."""
    reply = service.http.get("/graph")
    assert reply.status_code == 308 and reply.headers["location"] == "/console/#/store"

    def data(**asked: Any) -> Any:
        response = service.http.get("/graph/data", params=asked)
        assert response.status_code == 200, response.text
        return response.json()

    root = data()
    sessions = {edge["id"]: edge["label"] for edge in look(service)["edges"]}
    assert {node["id"]: node["label"] for node in root["nodes"][1:]} == sessions
    assert all(edge["from"] == root["nodes"][0]["id"] for edge in root["edges"])
    wide = max(
        event_before_a_result(service)["edges"], key=lambda edge: edge["kind"] == "HasResult"
    )
    page = data(node=wide["id"])
    stored_node = look(service, id=wide["id"])
    assert len(page["edges"]) == len(stored_node["edges"]) and page["next"] == stored_node["next"]
    assert {edge["label"] for edge in page["edges"]} == {e["kind"] for e in stored_node["edges"]}
    named_node = data(node=f"session:{ORDERS}")
    assert named_node["nodes"][0]["id"] == look(service, session=ORDERS)["id"]
    absent = service.http.get("/graph/data", params={"node": "session:nothing"})
    assert absent.status_code == 404
    token = {"authorization": f"Bearer {other}"}
    assert service.http.get("/graph/data", params={"node": wide["id"]}, headers=token).is_error
    assert service.http.get("/graph/data", headers={"authorization": "Bearer x"}).status_code == 401
    assert service.http.get("/graph/data", params={"start": "x"}).status_code == 422


def test_trace_finds_results_and_uses_of_a_value(service: Service) -> None:
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
        assert trace["first_result"] == edge["result"]
        assert edge["operation"] in [use["event"] for use in trace["uses"]]


def test_policies_are_compared_on_the_same_calls(service: Service) -> None:
    view = complete(service, "compare_policies", session=ORDERS)
    current, *_, full = view["options"]
    assert (current["policy"], full["policy"]) == ("contextrender", "full")
    totals = complete(service, "savings", session=ORDERS)["totals"]
    field_names = (
        "turns",
        "turn_count",
        "prompt",
        "full",
        "cached",
        "output",
        "recall_events",
        "recall_events_complete",
        "full_cost",
    )
    assert {name: current[name] for name in field_names} == {
        name: totals[name] for name in field_names
    }
    assert (
        totals["cost"] == current["cost"] is None
        and totals["calls_without_price"] == totals["turns"]
    )
    prices = ["*:input=2,cached=0.5,output=8"]
    priced = complete(service, "compare_policies", session=ORDERS, prices=prices)
    totals = complete(service, "savings", session=ORDERS, prices=prices)["totals"]
    assert totals["cost"] == pytest.approx(priced["options"][0]["cost"])
    assert totals["full_cost"] == pytest.approx(priced["options"][-1]["cost"])
    assert full["prompt"] == full["full"] and full["recall"] == 1.0
    assert len({option["full"] for option in view["options"]}) == 1
