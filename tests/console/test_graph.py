"""The reuse graph: levels of detail, groups and the lineage of one result."""

import re
from typing import Any

import pytest

from tests.console.conftest import LARGE, ORDERS, Console, Service
from tests.console.looking import expect, is_drawn

pytestmark = pytest.mark.slow

CANVAS = ".picture canvas"
READY = "canvas[data-drawn]"


def nodes(console: Console) -> int:
    return int(console.page.locator(READY).get_attribute("data-drawn") or 0)


def test_graph_traces_a_value(console: Console, service: Service) -> None:
    graph = service("reuse_graph", session=ORDERS)
    uses = [edge["result"] for edge in graph["edges"]]
    most_used = max(range(len(graph["results"]["positions"])), key=uses.count)
    edge = next(edge for edge in graph["edges"] if edge["result"] == most_used)
    value = edge["values"][0]
    trace = service("trace_value", session=ORDERS, value=value)
    assert trace["first_result"] == most_used and trace["holders"][0] == most_used
    console.open(ORDERS, "graph")
    console.page.locator(READY).wait_for()
    assert is_drawn(console, CANVAS, 8)
    position = graph["results"]["positions"][most_used]
    console.page.get_by_role("button", name=re.compile(f"^#{position} ")).click()
    console.page.locator("aside .chip", has_text=value).first.click()
    panel = console.page.get_by_role("region", name=f"Value {value}")
    expect(panel).to_contain_text(f"First seen in #{position}")
    expect(panel.locator("ol li")).to_have_count(len(trace["uses"]))


def test_large_graph_has_expandable_groups(console: Console, service: Service) -> None:
    graph = service("reuse_graph", session=LARGE)
    brought = {call: number for number, call in enumerate(graph["calls"]) if call >= 0}
    ends = {brought[e["operation"]] for e in graph["edges"] if e["operation"] in brought}
    # The results that are used, or whose calls use other results.
    linked_results = ends | {edge["result"] for edge in graph["edges"]}
    console.open(LARGE, "graph")
    console.page.locator(READY).wait_for()
    summary = console.page.locator(".graph .summary")
    expect(summary).to_contain_text(f"{len(linked_results):,} results")
    # The number of uses equals the session's; the operations of one turn are one use.
    uses = console.page.locator(".session > .figures .figure", has_text="Uses").locator("dd")
    expect(uses).to_have_text(re.compile(r"^\d"))
    expect(summary).to_contain_text(f"{uses.inner_text()} uses")
    fitted = nodes(console)
    assert 20 < fitted < len(linked_results) / 2
    expect(summary).to_contain_text(f"drawn as {fitted} nodes")
    assert is_drawn(console, CANVAS, 8)
    console.page.get_by_role("button", name="Zoom in").click()
    expect(console.page.locator(READY)).not_to_have_attribute("data-drawn", str(fitted))
    assert nodes(console) > fitted
    console.page.get_by_role("button", name="Fit").click()
    expect(console.page.locator(READY)).to_have_attribute("data-drawn", str(fitted))
    canvas = console.page.locator(CANVAS)
    canvas.focus()
    canvas.press("n")
    group = console.page.locator("aside section")
    expect(group.locator("h2")).to_contain_text(re.compile(r"^\d+ results? of \w+, turns 1 to \d+"))
    canvas.press("Enter")
    expect(console.page.locator(READY)).not_to_have_attribute("data-drawn", str(fitted))
    assert nodes(console) > fitted


def test_lineage_of_one_result_is_shown(console: Console, service: Service) -> None:
    graph = service("reuse_graph", session=LARGE)
    brought = {call: number for number, call in enumerate(graph["calls"])}
    edges = [(edge["result"], brought.get(edge["operation"])) for edge in graph["edges"]]
    middle = next(end for _, end in edges if end is not None and any(a == end for a, _ in edges))
    before = reachable_results([(end, start) for start, end in edges], middle)
    address = f"#/session/{LARGE}/graph?node=r{middle}"
    page = console.page
    page.evaluate("where => { location.hash = where }", address)
    page.get_by_role("button", name="Show its lineage alone").click()
    count = len(before | reachable_results(edges, middle))
    expect(page.locator(".graph .summary")).to_contain_text(re.compile(rf"^{count:,} results"))
    assert f"focus=r{middle}" in page.url
    expect(page.get_by_role("heading", name="Used", exact=True)).to_be_visible()
    is_drawn = next(start for start, end in edges if end == middle)
    position = graph["results"]["positions"][is_drawn]
    page.get_by_role("button", name=re.compile(f"^#{position} ")).first.click()
    expect(page.locator("aside h2")).to_contain_text(f"#{position} ")
    page.get_by_role("button", name="Whole graph").click()
    expect(page.locator(".graph .summary")).to_contain_text("drawn as")


def reachable_results(edges: list[Any], start: int) -> set[int]:
    """Return a result and all results reachable from it."""
    reachable = {start}
    while more := {end for begin, end in edges if begin in reachable} - reachable - {None}:
        reachable |= more
    return reachable
