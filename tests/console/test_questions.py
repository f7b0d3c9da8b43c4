"""Each of the main questions about a session is answered by a sentence two clicks away."""
# ruff: noqa: E501

import re
from typing import Any

import pytest

from tests.console.conftest import ORDERS, Console
from tests.console.looking import expect

pytestmark = pytest.mark.slow

STEP = ".misses tbody th a"
TIMELINE, TOOLS, SAVINGS, CALL = (
    f'role=navigation[name="Views of the session"] >> text={name}'
    for name in ("Timeline", "Tools", "Savings", "One call")
)
ALL_SESSIONS = 'role=navigation[name="Main"] >> text=Savings'
RESULT_OF_MISS = 'role=region[name="Misses"] >> role=link[name=/#/]'

QUESTIONS: dict[str, tuple[list[str], str, str]] = {
    "Which steps have a miss?": ([], ".misses .verdict", "% of .* steps had every"),
    "Did this step lack something?": ([STEP], 'role=region[name="The answer"]', "It missed a value of"),
    "Which setting would have avoided it?": (["role=link[name='Which setting would have avoided it?']"], ".settings .verdict", "."),
    "Which tools have large results or are never used?": ([TOOLS], ".tools .verdict", "flood|Never called|No answer used"),
    "What did it save?": ([SAVINGS], ".savings .verdict", "fewer prompt tokens"),
    "What did all sessions save?": ([ALL_SESSIONS], ".verdict", "All sessions .* fewer prompt"),
    "What would another setting have saved?": ([TIMELINE, ".settings summary", ".settings tbody tr:not(.current) a"], ".outcome", "would be|same values"),
    "How much of the history was in the prompt of this call?": ([STEP], ".call .summary", r"\d+ of \d+ results shown"),
    "What was in the prompt of this call?": ([STEP], 'role=region[name="What the model got"] >> pre', "."),
    "What was different in another call?": ([CALL, "text=Compare with another call"], ".compare [role=status]", "messages differ"),
    "Which setting is recommended?": ([TIMELINE], ".settings .verdict", "recommended|best for this session|no price"),
    "Where does this value come from?": ([RESULT_OF_MISS, ".used .value"], ".trace", "First seen in"),
}  # fmt: skip
"""The clicks that lead from the first page to the answer, the answer's place, and its words."""


@pytest.mark.parametrize("question", QUESTIONS)
def test_question_is_answered_in_two_clicks(console: Console, question: str) -> None:
    page: Any = console.page
    page.evaluate(f"location.hash = '#/session/{ORDERS}'")
    page.get_by_role("heading", name=ORDERS, level=1).wait_for()
    clicks, place, words = QUESTIONS[question]
    for target in clicks:
        page.locator(target).first.click()
    expect(page.locator(place).first).to_contain_text(re.compile(words, re.S))
