"""The graph store, whose edges are followed by click."""

from typing import Any

import pytest

from tests.console.conftest import ORDERS, Console, Service
from tests.console.looking import expect

pytestmark = pytest.mark.slow


def look(service: Service, **fields: Any) -> Any:
    return service("get_node", **fields)


def event_before_a_result(service: Service) -> Any:
    session = look(service, session=ORDERS)
    node = look(service, id=next(e["id"] for e in session["edges"] if e["kind"] == "HasBranch"))
    while node["kind"] != "ToolCall":
        ahead = [
            e for e in node["edges"] if e["kind"] in ("HasFirstEvent", "Next") and e["outgoing"]
        ]
        node = look(service, id=ahead[-1]["id"])
    return node


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
