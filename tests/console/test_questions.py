"""The ten questions that a session is opened with: each answer is a sentence, two clicks away."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.console.conftest import ORDERS, Console
from tests.console.looking import expect

pytestmark = pytest.mark.slow


@pytest.fixture
def page(console: Console) -> Any:
    """The session's first page."""
    console.page.evaluate(f"location.hash = '#/session/{ORDERS}'")
    console.page.get_by_role("heading", name=ORDERS, level=1).wait_for()
    return console.page


def tab(page: Any, name: str) -> None:
    page.get_by_role("navigation", name="Views of the session").get_by_text(name).click()


def lacked(page: Any) -> None:
    """Did this step lack something?"""
    expect(page.locator(".misses .verdict")).to_contain_text(re.compile("% of .* steps had every"))


def helped(page: Any) -> None:
    """What would have helped?"""
    page.get_by_role("link", name="Which setting would have avoided it?").click()
    expect(page.locator(".settings .verdict")).to_be_visible()


def floods(page: Any) -> None:
    """What floods? Which tools are never used?"""
    tab(page, "Tools")
    expect(page.locator(".tools .verdict").first).to_contain_text(re.compile("flood|Never called"))


def saved(page: Any) -> None:
    """What did it save?"""
    tab(page, "Savings")
    expect(page.locator(".savings .verdict")).to_contain_text("fewer prompt tokens")


def another(page: Any) -> None:
    """What would another setting have saved?"""
    tab(page, "Timeline")
    page.locator(".curve a, .settings tbody a").first.wait_for(state="attached")
    page.locator(".settings summary").click()
    page.locator(".settings tbody tr:not(.current) a").first.click()
    expect(page.locator(".outcome")).to_contain_text(re.compile("would be|same values"))


def in_call(page: Any) -> None:
    """What was in call N?"""
    page.locator(".misses tbody th a").first.click()
    expect(page.locator(".call .summary")).to_contain_text(re.compile(r"\d+ of \d+ results shown"))
    expect(
        page.get_by_role("region", name="What the model got").locator("pre").first
    ).to_be_visible()


def against(page: Any) -> None:
    """What was different in call M?"""
    tab(page, "One call")
    page.get_by_text("Compare with another call").click()
    expect(page.locator(".compare [role=status]")).to_contain_text("messages differ")


def to_set(page: Any) -> None:
    """What should I set?"""
    tab(page, "Timeline")
    sentence = re.compile("recommended|best for this session|no price")
    expect(page.locator(".settings .verdict")).to_contain_text(sentence)


def value_from(page: Any) -> None:
    """Where is this value from?"""
    page.get_by_role("region", name="Misses").get_by_role("link", name="#").first.click()
    page.locator(".used .value").first.click()
    expect(page.locator(".trace")).to_contain_text("First seen in")


QUESTIONS = [lacked, helped, floods, saved, another, in_call, against, to_set, value_from]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.__name__)
def test_a_question_is_answered_in_two_clicks(page: Any, question: Callable[[Any], None]) -> None:
    question(page)
