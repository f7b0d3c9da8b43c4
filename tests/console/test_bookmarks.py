"""Bookmarks of turns: kept in the browser, shared by a link, reached by keyboard."""

import re
from collections.abc import Callable

import pytest

from tests.console.conftest import ORDERS, PATIENCE_MS, Console

pytestmark = pytest.mark.slow

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=PATIENCE_MS)


def loaded(console: Console) -> Console:
    console.open(ORDERS)
    expect(console.page.locator(".progress")).to_have_count(0)
    return console


def test_turns_are_bookmarked_and_gone_to_by_keyboard(console: Console) -> None:
    grid = loaded(console).page.locator(".grid")
    grid.focus()
    for key in ("Control+ArrowLeft", "ArrowRight", "ArrowRight", "b", *("ArrowRight",) * 4, "b"):
        grid.press(key)
    marks = console.page.get_by_role("group", name="Bookmarks")
    expect(marks.get_by_role("button", name=re.compile("^Go to turn"))).to_have_text(["3", "7"])
    grid.press("Control+ArrowRight")
    grid.press("[")
    expect(console.page.locator("p[role=status]")).to_contain_text("Turn 7,")
    grid.press("[")
    expect(console.page.locator("p[role=status]")).to_contain_text("Turn 3,")
    marks.get_by_role("button", name="Go to turn 7").press("Enter")
    expect(console.page.locator("p[role=status]")).to_contain_text("Turn 7,")
    marks.get_by_role("button", name="Turn 7 is bookmarked").press("Enter")
    expect(marks.get_by_role("button", name=re.compile("^Go to turn"))).to_have_text(["3"])


def test_bookmarks_stay_and_are_those_of_the_session(console: Console) -> None:
    console.open(ORDERS, "call", 12)
    console.page.get_by_role("button", name="Bookmark turn 12").click()
    console.page.reload()
    expect(console.page.get_by_role("button", name="Go to turn 12")).to_be_visible()
    loaded(console)
    expect(console.page.get_by_role("button", name="Go to turn 12")).to_be_visible()
    console.open("nightly-00", "timeline")
    expect(console.page.locator(".progress")).to_have_count(0)
    expect(console.page.locator(".grid")).to_be_visible()
    expect(console.page.get_by_role("button", name="Go to turn 12")).to_have_count(0)


def test_a_copied_link_has_the_bookmarks(visit: Callable[..., Console]) -> None:
    one = visit(permissions=["clipboard-read", "clipboard-write"]).enter()
    one.open(ORDERS, "call", 12)
    one.page.get_by_role("button", name="Bookmark turn 12").click()
    one.page.get_by_role("button", name="Copy a link with the bookmarks").click()
    expect(one.page.get_by_text("Copied", exact=True)).to_be_visible()
    link = one.page.evaluate("navigator.clipboard.readText()")
    assert "marks=12" in link
    other = visit().enter()
    other.page.goto(link.replace("marks=12", "marks=12%2C4%2Cx"))
    marks = other.page.get_by_role("group", name="Bookmarks")
    expect(marks.get_by_role("button", name=re.compile("^Go to turn"))).to_have_text(["4", "12"])
    assert "marks" not in other.page.url
    other.page.reload()
    expect(marks.get_by_role("button", name=re.compile("^Go to turn"))).to_have_text(["4", "12"])


def test_a_turn_is_chosen_by_its_number_its_slider_and_its_arrows(console: Console) -> None:
    console.open(ORDERS, "call", 10)
    page = console.page
    turn = page.get_by_label("Turn", exact=True).first
    page.get_by_role("button", name="Next turn").click()
    expect(turn).to_have_value("11")
    page.get_by_role("button", name="Previous turn").click()
    expect(turn).to_have_value("10")
    turn.fill("20")
    turn.press("Enter")
    expect(turn).to_have_value("20")
    page.get_by_role("slider", name="Turn").fill("15")
    expect(turn).to_have_value("15")
