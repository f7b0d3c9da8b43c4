"""A use of an old version of a file has a mark of its own in the console and in the terminal."""

import json

import pytest

from tests.api.test_superseded import USED_OLD
from tests.console.conftest import Console, Service
from tests.console.looking import expect
from tests.console.test_terminal import run

SESSION = "old-versions"
MARK = "used an old version"


@pytest.fixture(scope="module", autouse=True)
def session(service: Service) -> None:
    service.render(SESSION, USED_OLD, budget=6000)


def test_terminal_counts_uses_of_old_versions(service: Service) -> None:
    sentence = "2 uses were of an old version of a file."
    for command in ("show", "misses"):
        assert sentence in " ".join(run(service, command, SESSION).split())
    assert json.loads(run(service, "misses", SESSION, "--json"))["old_versions"] == 2
    assert "superseded by #4" in run(service, "recall", SESSION, "2")


@pytest.mark.slow
def test_console_marks_uses_of_old_versions(console: Console) -> None:
    page = console.open(SESSION, "call", 3).page
    used = page.get_by_label("Results it used")
    expect(used.get_by_text(MARK)).to_have_attribute("title", "The file was edited at call 2")
    expect(page.locator(".scores").get_by_text(MARK)).to_have_count(1)
    page = console.open(SESSION, "call", 2).page
    expect(page.get_by_label("Results it used")).not_to_contain_text(MARK)
    page = console.open(SESSION, "timeline").page
    page.get_by_role("application").press("ArrowLeft")
    page.get_by_role("application").press("ArrowLeft")
    expect(page.locator(".life")).to_contain_text(f"turn 3: shown complete, used, {MARK}")
