"""Code that adapters share: no failure around a model call reaches the agent."""

from collections.abc import Iterator
from typing import Any

import pytest
from contextrender_bridge import ContextRender
from contextrender_bridge.adapters.planning import Planner, RemainingMessage, RenderedHistory
from contextrender_bridge.dialects import MessagePlan

from tests.support.transcripts import assistant, call, result, user

MESSAGES = [user("Look.")]


@pytest.fixture
def nowhere() -> Iterator[ContextRender]:
    with ContextRender("http://127.0.0.1:9", "token", retries=0) as client:
        yield client


def test_full_history_is_shown_without_service(nowhere: ContextRender) -> None:
    planner = Planner(nowhere, session="s")
    assert planner.render(MESSAGES) is None
    assert planner.fit(MESSAGES).messages == MESSAGES
    assert nowhere.failures.counts() == {"unreachable": 2}


def test_unreadable_history_is_unchanged(
    nowhere: ContextRender, caplog: pytest.LogCaptureFixture
) -> None:
    history = ["secret"]

    def fail(messages: list[str]) -> list[str]:
        raise KeyError(messages[0])

    assert Planner(nowhere).fail_open(fail, history) is history
    assert nowhere.failures.counts() == {"KeyError": 1}
    assert "KeyError" in caplog.text
    assert "secret" not in caplog.text


def test_remaining_parts_of_a_message() -> None:
    messages: list[Any] = [
        *MESSAGES,
        assistant("Two at once.", call("c0", "look"), call("c1", "look")),
        result("c0", "Fast."),
        result("c1", "Slow."),
    ]
    some: list[Any] = [{"message": 0, "calls": []}, {"message": 1, "calls": [1], "text": ""}]
    plan = MessagePlan(messages, [*some, {"message": 3, "calls": [], "text": "S…"}])
    # Message 1 of the runtime was not read.
    rendered = RenderedHistory(plan, [0, None, 1, 2, 3])
    own_calls: dict[int, str | None] = {0: None, 1: None, 2: None}
    assert rendered.remaining_message(0) == RemainingMessage({}, None, is_unchanged=True)
    assert rendered.remaining_message(1, 3) == RemainingMessage(own_calls, None, is_unchanged=True)
    assert rendered.remaining_message(2, 2) == RemainingMessage({1: None}, "", is_unchanged=False)
    assert rendered.remaining_message(3) is None
    assert rendered.remaining_message(4) == RemainingMessage({}, "S…", is_unchanged=False)
    cut = MessagePlan(messages, [{"message": 1, "calls": [0, 1], "arguments": ["{}", None]}])
    remaining = RenderedHistory(cut, [0, 1, 2, 3]).remaining_message(1, 2)
    assert remaining == RemainingMessage({0: "{}", 1: None}, None, is_unchanged=False)
