"""The automatic budget, and results restored after the newest result."""

import json
from functools import cache
from typing import Any

import pytest
from contextrender_bridge.engine.call.call_record import CallRecord, record_of
from contextrender_bridge.engine.call.explain import explain_results
from contextrender_bridge.engine.call.settings import AGENT_SETTINGS, CallMetadata
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.parameters import AUTO, limits_of
from contextrender_bridge.engine.plan import auto_budget
from contextrender_bridge.engine.text.transcript import Json

from tests.support.strategies import COUNTER, render
from tests.support.transcripts import step, user

POLICY = "contextrender_cache_aware"
STEP_DOWN = 1 - auto_budget.SHRINKAGE


def reading(steps: int, lines: int = 120, texts: dict[int, str] | None = None) -> list[Json]:
    """Return a run that reads one file in each step; `texts` maps steps to the agent's texts."""
    messages = [user("read them all")]
    for file in range(steps):
        words = (texts or {}).get(file, "next")
        arguments = json.dumps({"file": file})
        text = "".join(f"def function_{file}_{n}(argument): return {n}\n" for n in range(lines))
        messages += step(f"c{file}", "read", arguments, text, words)
    return messages


def calls_of(messages: list[Json]) -> list[tuple[Any, list[Json]]]:
    history = History()
    calls = []
    for size in [n for n, message in enumerate(messages) if message["role"] == "assistant" and n]:
        history.extend(messages[len(history) : size], COUNTER)
        calls.append(render(messages[:size], AUTO, POLICY, history=history))
    return calls


@cache
def calls_with_restored_result() -> list[tuple[Any, list[Json]]]:
    """Return the calls of a run that uses a file dropped long before."""
    return calls_of(reading(34, texts={29: "function_2_77 again"}))


def test_budget_starts_at_24000_and_shrinks_without_faults() -> None:
    calls = calls_of(reading(26))
    budgets = [rendered.budget for rendered, _ in calls]
    over = next(n for n, (rendered, _) in enumerate(calls) if rendered.selection.excerpts)
    assert set(budgets[: over + 1]) == {24_000}
    for number, budget in enumerate(budgets[over:]):
        assert budget == int(24_000 * STEP_DOWN**number)
    assert all(rendered.tokens_after <= rendered.budget for rendered, _ in calls)


def test_fault_raises_budget() -> None:
    rendered, prompt = calls_of(reading(30))[-1]
    text = json.dumps(prompt)
    hidden = next(
        name for n in range(120) if (name := f"function_2_{n}") not in text and len(name) > 12
    )
    visible_name = next(name for n in range(120) if (name := f"function_28_{n}") in text)
    for name, is_fault in ((hidden, True), (visible_name, False)):
        after, _ = calls_of(reading(31, texts={29: f"now {name}"}))[-1]
        assert after.selection.follows_miss is is_fault
        expected = 1 + auto_budget.GROWTH if is_fault else STEP_DOWN
        assert after.budget == pytest.approx(rendered.budget * expected, abs=2)


def test_automatic_budget_respects_model_window() -> None:
    assert limits_of(30_000, None) == (30_000, 30_000)
    assert limits_of(AUTO, None) == (160_000, 24_000)
    assert limits_of(AUTO, 1_000_000) == (160_000, 24_000)
    assert limits_of(AUTO, 100_000) == (80_000, 24_000)
    assert limits_of(AUTO, 16_000) == (12_800, 12_800)


def test_automatic_budget_depends_on_messages_only() -> None:
    messages = reading(30, texts={25: "function_1_17 function_2_3", 27: "function_3_90"})
    live = calls_of(messages)[-1]
    size = len(messages) - 2
    first_render = render(messages[:size], AUTO, POLICY)
    assert live[1] == first_render[1]
    assert live[0].budget == first_render[0].budget


def restored_in(prompt: list[Json], position: int) -> list[int]:
    """Return the numbers of messages to which text of a result was restored."""
    opens = (f"[Result {position}, which", f"[Parts of result {position}, which")
    return [
        n for n, message in enumerate(prompt) if any(o in str(message["content"]) for o in opens)
    ]


def test_used_result_is_restored_until_rebuild() -> None:
    calls = calls_with_restored_result()
    restored = [n for n, (rendered, _) in enumerate(calls) if rendered.selection.restored]
    assert restored
    rendered, prompt = calls[restored[0]]
    ((host, added),) = rendered.selection.restored.items()
    assert 2 in added.results
    assert added.tokens <= 0.04 * rendered.budget
    assert "def function_2_" in added.text
    assert host == max(rendered.selection.complete)
    position = rendered.context.history.results.message[2]
    assert restored_in(prompt, position) == [len(prompt) - 1]
    assert rendered.context.history.results.message[host] in rendered.complete
    assert rendered.tokens_after <= rendered.budget
    for later, then in calls[restored[0] + 1 :]:
        if later.selection.restored:
            assert then[: len(prompt)] == prompt
    row = explain_results(rendered)[2]
    if 2 not in rendered.selection.shown_results:
        assert row.decision.display == "excerpt"
        assert "restored behind result" in row.decision.reason


def test_call_record_has_its_budget() -> None:
    calls = calls_with_restored_result()
    rendered = next(rendered for rendered, _ in calls if rendered.selection.restored)
    fact = record_of(rendered, rendered.selection, AGENT_SETTINGS, 1, None, CallMetadata())
    assert CallRecord.from_json(json.loads(json.dumps(fact.to_json()))) == fact
    assert fact.budget == rendered.budget
    assert fact.to_json()["budget"] == "auto"
    assert 2 in rendered.selection.partial


def test_new_result_is_complete_up_to_2000_tokens() -> None:
    for tokens, complete in ((1_900, True), (9_000, False)):
        complete_text = "".join(f"row_{n}_A " for n in range(tokens // 5))
        messages = [*reading(25), *step("big", "read", "{}", complete_text, "more")]
        text = render(messages, 24_000, POLICY)[1][-1]["content"]
        assert (text == complete_text) == complete
        assert complete or COUNTER.text(text) <= 24_000 / 14
