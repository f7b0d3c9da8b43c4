"""Each of the main questions about a session is answered by a sentence two clicks away."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.console.conftest import ORDERS, Console
from tests.console.looking import expect

pytestmark = pytest.mark.slow


@pytest.fixture
def page(console: Console) -> Any:
    """Open the first page of the session."""
    console.page.evaluate(f"location.hash = '#/session/{ORDERS}'")
    console.page.get_by_role("heading", name=ORDERS, level=1).wait_for()
    return console.page


def tab(page: Any, name: str) -> None:
    page.get_by_role("navigation", name="Views of the session").get_by_text(name).click()


def steps_with_misses(page: Any) -> None:
    """Which steps have a miss?"""
    expect(page.locator(".misses .verdict")).to_contain_text(re.compile("% of .* steps had every"))


def lack_of_step(page: Any) -> None:
    """Did this step lack something?"""
    page.locator(".misses tbody th a").first.click()
    expect(page.get_by_role("region", name="The answer")).to_contain_text("It missed a value of")


def better_setting(page: Any) -> None:
    """Which setting would have avoided it?"""
    page.get_by_role("link", name="Which setting would have avoided it?").click()
    expect(page.locator(".settings .verdict")).to_be_visible()


def large_or_unused_tools(page: Any) -> None:
    """Which tools have large results or are never used?"""
    tab(page, "Tools")
    expect(page.locator(".tools .verdict").first).to_contain_text(
        re.compile("flood|Never called|No answer used")
    )


def savings(page: Any) -> None:
    """What did it save?"""
    tab(page, "Savings")
    expect(page.locator(".savings .verdict")).to_contain_text("fewer prompt tokens")


def overall_savings(page: Any) -> None:
    """What did all sessions save?"""
    page.get_by_role("navigation", name="Main").get_by_text("Savings").click()
    expect(page.locator(".verdict")).to_contain_text(re.compile("All sessions .* fewer prompt"))


def other_setting(page: Any) -> None:
    """What would another setting have saved?"""
    tab(page, "Timeline")
    page.locator(".curve a, .settings tbody a").first.wait_for(state="attached")
    page.locator(".settings summary").click()
    page.locator(".settings tbody tr:not(.current) a").first.click()
    expect(page.locator(".outcome")).to_contain_text(re.compile("would be|same values"))


def prompt_of_call(page: Any) -> None:
    """What was in the prompt of call N?"""
    page.locator(".misses tbody th a").first.click()
    expect(page.locator(".call .summary")).to_contain_text(re.compile(r"\d+ of \d+ results shown"))
    expect(
        page.get_by_role("region", name="What the model got").locator("pre").first
    ).to_be_visible()


def difference_between_calls(page: Any) -> None:
    """What was different in call M?"""
    tab(page, "One call")
    page.get_by_text("Compare with another call").click()
    expect(page.locator(".compare [role=status]")).to_contain_text("messages differ")


def recommended_setting(page: Any) -> None:
    """Which setting is recommended?"""
    tab(page, "Timeline")
    sentence = re.compile("recommended|best for this session|no price")
    expect(page.locator(".settings .verdict")).to_contain_text(sentence)


def source_of_value(page: Any) -> None:
    """Where does this value come from?"""
    page.get_by_role("region", name="Misses").get_by_role("link", name="#").first.click()
    page.locator(".used .value").first.click()
    expect(page.locator(".trace")).to_contain_text("First seen in")


QUESTIONS = [
    steps_with_misses,
    lack_of_step,
    better_setting,
    large_or_unused_tools,
    savings,
    overall_savings,
    other_setting,
    prompt_of_call,
    difference_between_calls,
    recommended_setting,
    source_of_value,
]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.__name__)
def test_question_is_answered_in_two_clicks(page: Any, question: Callable[[Any], None]) -> None:
    question(page)
