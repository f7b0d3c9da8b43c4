"""Sessions that stretch the page: long names, damage, long texts; and sizes of click targets."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.console.conftest import ORDERS, Console, Service
from tests.console.looking import Visit, expect
from tests.console.transcripts import make_run

pytestmark = pytest.mark.slow
LONG = "mcp__" + "warehouse_inventory_" * 8 + "read"
EXTREME = "extreme"
BINARY, SMALL = 2, 4
TARGETS = """() => [...document.querySelectorAll("a, button, input, select, summary")]
    .filter(one => one.offsetParent && !one.closest("svg, pre, .hidden, .skip"))
    .filter(one => getComputedStyle(one).display !== "inline")
    .map(one => [one.outerHTML.slice(0, 90), one.getBoundingClientRect()])
    .filter(([, { width, height }]) => width > 1 && (width < 24 || height < 23.9))
    .map(([html, { width, height }]) => `${width} x ${height}: ${html}`)"""

BAD_LABELS = """() => [...document.querySelectorAll(".chart svg")].flatMap(svg => {
    const around = svg.getBoundingClientRect();
    const labels = [...svg.querySelectorAll("text")]
        .map(one => [one.textContent, one.getBoundingClientRect()]);
    const clipped = labels
        .filter(([, box]) => box.left < around.left - 1 || box.right > around.right + 1);
    const covered = labels.filter(([, a], place) => labels.slice(place + 1).some(([, b]) =>
        a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom));
    return [...clipped, ...covered].map(([words]) => words);
})"""
"""Script that returns chart labels that are clipped or overlap."""


@pytest.fixture(scope="module")
def extreme(service: Service) -> Iterator[str]:
    noise = random.Random(4)
    binary = "".join(chr(noise.choice([*range(1, 32), *range(127, 256)])) for _ in range(300_000))
    call = {"id": "c1", "type": "function", "function": {"name": LONG, "arguments": "{}"}}
    messages: list[Any] = [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "value_a41" + binary + "._-" * 9000},
        {"role": "assistant", "content": "value_a41", "tool_calls": [{**call, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c2", "content": "value_b52"},
        {"role": "assistant", "content": "value_b52"},
    ]
    service("sync", session=EXTREME, messages=messages, model="rare-model-9")
    yield EXTREME
    service("delete_session", session=EXTREME)


@pytest.mark.parametrize("width", [1440, 1000])
def test_long_tool_name_keeps_columns_visible(extreme: str, visit: Visit, width: int) -> None:
    page = visit(viewport={"width": width, "height": 900}).enter().page
    page.locator("table.sessions tbody tr").first.wait_for()
    page.wait_for_timeout(500)
    wide = page.evaluate("document.querySelector('.scroll').scrollWidth")
    assert wide <= max(width, 1200)
    name = page.locator("table.sessions tbody th a").filter(has_text=ORDERS)
    assert name.evaluate("one => one.getBoundingClientRect().height") < 30
    page.evaluate(f"location.hash = '#/session/{extreme}/tools'")
    page.locator(".tools table").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_damaged_session_is_marked_in_list(extreme: str, visit: Visit) -> None:
    console = visit()

    def damaged(route: Any) -> None:
        reply = route.fetch()
        view = reply.json()
        for session in view["reports"][0]["sessions"]:
            if session["session"] == extreme:
                session["damage"] = "lost event 1 of branch 0"
        route.fulfill(response=reply, body=json.dumps(view))

    console.page.route("**/walker/list_sessions", damaged)
    console.enter()
    marks = console.page.get_by_text("damaged", exact=True)
    expect(marks).to_have_count(1)
    expect(marks).to_have_attribute("title", "lost event 1 of branch 0")


def test_binary_result_opens_quickly(extreme: str, console: Console) -> None:
    """Opening it takes at most eight times the processor time of a small result."""
    session = console.page.context.new_cdp_session(console.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def processor_time() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))

    def opening(position: int) -> float:
        console.open(extreme, "timeline").page.locator(".timeline").wait_for()
        before = processor_time()
        console.open(extreme, "result", position).page.locator(".blocks").wait_for()
        next_frame = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
        console.page.evaluate(next_frame)
        return processor_time() - before

    small, binary = (min(opening(position) for _ in range(3)) for position in (SMALL, BINARY))
    assert binary < 8 * small, (binary, small)


def test_chart_labels_are_readable(console: Console, service: Service) -> None:
    service.render("priced", make_run(40, 3), model="gpt-4o", policy="contextrender_cache_aware")
    for view, charts in (("savings", 2), ("timeline", 1)):
        console.open("priced", view)
        expect(console.page.locator(".chart svg")).to_have_count(charts)
        expect(console.page.locator(".spinner")).to_have_count(0)
        assert console.page.evaluate(BAD_LABELS) == []
    expect(console.page.locator(".curve")).to_contain_text("you are here")
    service("delete_session", session="priced")


def test_tool_names_fit_on_a_phone(visit: Visit) -> None:
    console = visit(viewport={"width": 390, "height": 844}).enter().open(ORDERS, "tools")
    name = console.page.locator(".tools tbody th a", has_text="track_shipment")
    assert name.evaluate("one => one.getBoundingClientRect().height") < 30


@pytest.mark.parametrize("view", ["", "misses", "tools", "timeline", "call/9", "result", "savings"])
def test_click_targets_are_at_least_24_pixels(console: Console, view: str) -> None:
    if view:
        console.page.evaluate(f"location.hash = '#/session/{ORDERS}/{view}'")
        console.page.locator("#view > *").first.wait_for()
    console.page.wait_for_timeout(1500)
    assert console.page.evaluate(TARGETS) == []
