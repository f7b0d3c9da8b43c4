"""Accessibility, narrow screens, both colour schemes, and the pictures in the documentation."""

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.console.conftest import ORDERS, PATIENCE_MS, Console

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=PATIENCE_MS)

DOCS = Path(__file__).resolve().parents[2] / "docs" / "images"
VIEWS: dict[str, tuple[str, int | None, str]] = {
    "misses": ("misses", None, ".misses tbody tr"),
    "timeline": ("timeline", None, ".grid canvas"),
    "call": ("call", 40, ".scores table"),
    "graph": ("graph", None, "canvas[data-settled]"),
    "result": ("result", 3, ".blocks"),
    "savings": ("savings", None, ".savings tbody tr:nth-child(7)"),
}
KEPT = {
    *("sessions-light", "timeline-light", "call-light", "graph-light", "result-light"),
    *("savings-light", "timeline-dark", "graph-dark"),
}
Visit = Callable[..., Console]


def arrive(console: Console, view: str) -> None:
    """Waits until the view has what it shows."""
    if view == "sessions":
        console.home()
        expect(console.page.locator("table.sessions tbody tr").first).to_be_visible()
        expect(console.page.locator("table.sessions .pending")).to_have_count(0)
        return
    if view == "overall":
        console.page.evaluate("location.hash = '#/overall'")
        expect(console.page.locator("tbody tr").first).to_be_visible()
        return
    if view == "store":
        console.page.evaluate(f"location.hash = '#/store/session%3A{ORDERS}'")
        expect(console.page.get_by_role("region", name="Edges")).to_be_visible()
        return
    name, item, waited = VIEWS[view]
    console.open(ORDERS, name, item)
    console.page.locator(waited).first.wait_for()
    expect(console.page.locator(".progress")).to_have_count(0)
    if view == "savings":
        expect(console.page.locator(".savings [role=status]")).to_have_count(0)


ALL = [*VIEWS, "sessions", "overall", "store"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit: Visit, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    console = visit(color_scheme=scheme)
    found = []
    console.page.goto(f"{console.service.server.url}/console/")
    expect(console.page.get_by_role("heading", name="Sign in")).to_be_visible()
    found += [("login", one) for one in violations(axe, console)]
    console.enter()
    for view in ALL:
        arrive(console, view)
        found += [(view, one) for one in violations(axe, console)]
    assert not found


def violations(axe: Any, console: Console) -> list[str]:
    results = axe.Axe().run(console.page)
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary'][:200]}"
        for one in results.response["violations"]
        if one["impact"] in ("serious", "critical", "moderate")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_drawn_in_both_schemes(visit: Visit, scheme: str) -> None:
    """With CONTEXTRENDER_PICTURES set, the pictures become those of the documentation."""
    console = visit(color_scheme=scheme, viewport={"width": 1200, "height": 750}).enter()
    assert console.page.evaluate("document.documentElement.dataset.theme") == scheme
    for view in ALL:
        arrive(console, view)
        picture = console.page.screenshot()
        assert len(picture) > 15_000
        if os.environ.get("CONTEXTRENDER_PICTURES") and f"{view}-{scheme}" in KEPT:
            DOCS.mkdir(parents=True, exist_ok=True)
            small = as_webp(visit().page, picture)
            (DOCS / f"console-{view}-{scheme}.webp").write_bytes(small)


def as_webp(page: Any, png: bytes) -> bytes:
    """The picture in a third of its size; Chromium does it."""
    url: str = page.evaluate(
        """async png => {
            const bytes = Uint8Array.from(atob(png), c => c.charCodeAt(0));
            const picture = await createImageBitmap(new Blob([bytes]));
            const canvas = document.createElement("canvas");
            canvas.width = picture.width;
            canvas.height = picture.height;
            canvas.getContext("2d").drawImage(picture, 0, 0);
            return canvas.toDataURL("image/webp", 0.82);
        }""",
        base64.b64encode(png).decode(),
    )
    return base64.b64decode(url.partition(",")[2])


def test_the_scheme_can_be_chosen(console: Console) -> None:
    console.page.get_by_role("button", name="Use dark colours").click()
    console.page.reload()
    assert console.page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_narrow_screens_need_no_sideways_scrolling(visit: Visit) -> None:
    console = visit(viewport={"width": 360, "height": 740}).enter()
    for view in ALL:
        arrive(console, view)
        wide = console.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 360, view


def test_everything_is_reached_by_keyboard(console: Console) -> None:
    page = console.page
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Search sessions by name")).to_be_focused()
