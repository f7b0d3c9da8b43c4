"""Searching what sessions hold, in the page."""

import re
from typing import Any

import pytest

from tests.console.conftest import ORDERS, Console, Service
from tests.console.looking import expect

pytestmark = pytest.mark.slow


def found(console: Console) -> Any:
    return console.page.locator("ol.found > li")


def test_a_text_is_found_in_a_session_and_leads_to_its_place(
    console: Console, service: Service
) -> None:
    told = service("search", query="ORD_", session=ORDERS, limit=25)
    first = next(one for one in told["matches"] if one["kind"] == "result")
    console.open(ORDERS).page.get_by_role("link", name="Search", exact=True).last.click()
    console.page.get_by_label("Text to find").fill("ord_")
    console.page.get_by_role("button", name="Search", exact=True).click()
    expect(found(console)).to_have_count(25)
    expect(found(console).locator("mark").first).to_have_text(told["matches"][0]["found"])
    assert console.page.url.endswith(f"#/search?text=ord_&session={ORDERS}")
    console.page.get_by_role("button", name="Search further").click()
    expect(found(console)).to_have_count(50)
    console.page.reload()
    expect(found(console)).to_have_count(25)
    place = f"#{first['position']} {first['name']}"
    found(console).get_by_role("link", name=re.compile(re.escape(place))).first.click()
    expect(console.page.get_by_role("heading", name=ORDERS, level=1)).to_be_visible()
    assert f"/result/{first['position']}" in console.page.url
