"""Accessibility, narrow screens, both colour schemes, and the screenshots in the documentation."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from tests.console.conftest import ORDERS, Console
from tests.console.looking import Visit, expect

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[2] / "docs" / "images"
SESSION_ADDRESS = f"session/{ORDERS}"
VIEWS = {
    "misses": (f"{SESSION_ADDRESS}/misses", ".misses tbody tr"),
    "timeline": (f"{SESSION_ADDRESS}/timeline", ".settings .verdict"),
    "call": (f"{SESSION_ADDRESS}/call/40", ".scores table"),
    "graph": (f"{SESSION_ADDRESS}/graph", "canvas[data-drawn]"),
    "result": (f"{SESSION_ADDRESS}/result/3", ".blocks"),
    "tools": (f"{SESSION_ADDRESS}/tools", ".tools tbody tr:nth-child(3)"),
    "savings": (f"{SESSION_ADDRESS}/savings", ".savings .verdict"),
    "sessions": ("", "table.sessions tbody tr"),
    "search": ("search?text=ORD_", "ol.found > li"),
    "overall": ("overall", "tbody tr"),
    "store": (f"store/session%3A{ORDERS}", "[aria-label=Edges]"),
}
"""Address of each view, and the selector that is visible once it has loaded."""
DOCUMENTED_PICTURES = {
    *("sessions-light", "timeline-light", "call-light", "graph-light", "result-light"),
    *("savings-light", "timeline-dark", "graph-dark"),
}


def open_view(console: Console, view: str) -> None:
    address, selector = VIEWS[view]
    console.page.evaluate("where => { location.hash = where }", f"#/{address}")
    expect(console.page.locator(selector).first).to_be_visible()
    expect(console.page.locator(".progress, .loading")).to_have_count(0)


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1000)])
def test_axe_finds_no_violations(visit: Visit, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    console = visit(color_scheme=scheme, viewport={"width": width, "height": 900})
    all_violations = []
    console.page.goto(f"{console.service.server.url}/console/")
    expect(console.page.get_by_role("heading", name="Sign in")).to_be_visible()
    all_violations += [("login", violation) for violation in violations(axe, console)]
    console.enter()
    for view in VIEWS:
        open_view(console, view)
        all_violations += [(view, violation) for violation in violations(axe, console)]
    assert not all_violations


def violations(axe: Any, console: Console) -> list[str]:
    results = axe.Axe().run(console.page)
    return [
        f"{rule['id']}: {rule['nodes'][0]['html'][:200]} {rule['nodes'][0]['failureSummary'][:200]}"
        for rule in results.response["violations"]
        if rule["impact"] in ("serious", "critical", "moderate")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_drawn_in_both_schemes(visit: Visit, scheme: str) -> None:
    """If CONTEXTRENDER_PICTURES is set, write the documentation's screenshots."""
    console = visit(color_scheme=scheme, viewport={"width": 1200, "height": 750}).enter()
    assert console.page.evaluate("document.documentElement.dataset.theme") == scheme
    for view in VIEWS:
        open_view(console, view)
        picture = console.page.screenshot()
        assert len(picture) > 15_000
        if os.environ.get("CONTEXTRENDER_PICTURES") and f"{view}-{scheme}" in DOCUMENTED_PICTURES:
            DOCS.mkdir(parents=True, exist_ok=True)
            small = as_webp(visit().page, picture)
            (DOCS / f"console-{view}-{scheme}.webp").write_bytes(small)


def as_webp(page: Any, png: bytes) -> bytes:
    """Convert a picture to WebP, a third of its size, in Chromium."""
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


def test_narrow_screens_need_no_horizontal_scrolling(visit: Visit) -> None:
    console = visit(viewport={"width": 360, "height": 740}).enter()
    for view in VIEWS:
        open_view(console, view)
        assert console.page.evaluate("document.documentElement.scrollWidth") <= 360, view


def count_presses(console: Console, selector: str) -> int:
    """Return how often Tab is pressed until the selector has the focus."""
    for count in range(1, 60):
        console.page.keyboard.press("Tab")
        if console.page.evaluate("selector => document.activeElement?.matches(selector)", selector):
            return count
    return 60


@pytest.mark.parametrize(("view", "picture"), [("timeline", ".grid"), ("graph", ".picture canvas")])
def test_main_picture_is_within_five_tabs(console: Console, view: str, picture: str) -> None:
    page = console.page
    page.goto(f"{console.service.server.url}/console/#/session/{ORDERS}/{view}")
    page.locator(picture).wait_for()
    assert count_presses(console, "a.skip") == 1
    page.keyboard.press("Enter")
    assert count_presses(console, picture) <= 4
    page.get_by_role("navigation", name="Views of the session").locator("[aria-current]").focus()
    assert count_presses(console, picture) <= 5


def test_copy_button_confirms(visit: Visit) -> None:
    console = visit(permissions=["clipboard-read", "clipboard-write"]).enter()
    open_view(console, "store")
    button = console.page.get_by_role("button", name="Copy id")
    button.click()
    expect(button.locator("xpath=following-sibling::*[@role='status'][1]")).to_have_text("Copied")
    assert console.page.evaluate("navigator.clipboard.readText()")
