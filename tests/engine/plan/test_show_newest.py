"""The results of the newest turn, shown above an automatic budget for one call."""

from typing import Any

import pytest
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.parameters import AUTO
from contextrender_bridge.engine.text.transcript import Json

from tests.engine.plan.test_auto_budget import reading
from tests.support.strategies import COUNTER, render
from tests.support.transcripts import step

POLICY = "contextrender_cache_aware"
BEFORE = reading(26)


def rows(tokens: int) -> str:
    """Return a text of about this many tokens."""
    return "".join(f"row_{n}_A\n" for n in range(tokens // 6))


def calls_after(
    *results: str, budget: int = AUTO, window: int | None = None
) -> list[tuple[Any, list[Json]]]:
    """Return the calls right after a turn with these results, and one turn later."""
    messages = [*BEFORE]
    calls = [m for n in range(len(results)) for m in step(f"big{n}", "read", f"[{n}]", "", "")]
    tool_calls = [message["tool_calls"][0] for message in calls if message["role"] == "assistant"]
    messages.append({"role": "assistant", "content": "more", "tool_calls": tool_calls})
    messages += [
        {"role": "tool", "tool_call_id": call["id"], "content": text}
        for call, text in zip(tool_calls, results, strict=True)
    ]
    later = [*messages, *step("small", "read", "{}", "nothing else", "next")]
    history, rendered_calls = History(), []
    for prompt in (messages, later):
        history.extend(prompt[len(history) :], COUNTER)
        rendered_calls.append(render(prompt, budget, POLICY, history=history, window=window))
    return rendered_calls


def test_newest_result_is_complete_once_then_excerpt() -> None:
    text = rows(7_800)
    (first, prompt), (second, later) = calls_after(text)
    assert prompt[-1]["content"] == text
    assert first.tokens_after > first.budget
    (result,) = first.selection.next_excerpts
    assert second.selection.excerpts[result] == first.selection.next_excerpts[result]
    assert later[: len(prompt) - 1] == prompt[:-1]
    assert "tokens left out" in later[len(prompt) - 1]["content"]
    assert second.tokens_after <= second.budget
    assert first.selection.shared_messages(None, first.context.history.results) == 0
    assert (
        second.selection.shared_messages(first.selection, second.context.history.results)
        == len(first.context.history) - 4
    ), "the messages before the call of the result are shared"


def test_smallest_results_are_complete_up_to_8000_tokens() -> None:
    (_, prompt), _ = calls_after(rows(5_000), rows(4_000), rows(3_000))
    contents = [message["content"] for message in prompt[-3:]]
    assert [text in contents for text in (rows(3_000), rows(4_000), rows(5_000))] == [
        True,
        True,
        False,
    ]


def test_larger_result_shows_first_2000_tokens_and_its_excerpt() -> None:
    text = rows(20_000)
    (first, prompt), (_, later) = calls_after(text)
    mark, _, excerpt_text = prompt[-1]["content"].partition("\n")
    beginning, _, _ = excerpt_text.partition("[…]")
    assert "lines" in mark
    assert text.startswith(beginning.rstrip())
    assert 1_700 < COUNTER.text(beginning) <= 2_000
    # The next call shows the excerpt alone.
    next_text = later[len(prompt) - 1]["content"]
    assert next_text != prompt[-1]["content"]
    later_parts = [part.strip() for part in next_text.partition("\n")[2].split("[…]")]
    assert [part for part in later_parts if part]
    assert all(part in excerpt_text for part in later_parts)
    assert first.selection.next_excerpts


@pytest.mark.parametrize(("budget", "window"), [(24_000, None), (AUTO, 20_000)])
def test_fixed_budget_and_model_window_are_strict(budget: int, window: int | None) -> None:
    for rendered, _ in calls_after(rows(7_000), budget=budget, window=window):
        assert not rendered.selection.next_excerpts
        assert rendered.tokens_after <= rendered.budget


def test_budget_is_at_least_half_of_recent_results() -> None:
    (first, _), _ = calls_after(*[rows(tokens) for tokens in (30_000, 25_000, 20_000)])
    results = first.context.history.results
    recent = [
        tokens
        for turn, tokens in zip(results.turn, results.tokens, strict=True)
        if turn >= first.context.history.turn - 1 - 8  # one call later
    ]
    assert first.budget == sum(recent[:-1]) // 2
