"""Rendering stays within the budget, leaves no orphan and equals a reference implementation."""

from typing import Any

import pytest
from contextrender_bridge.engine.parameters import SMALLEST_BUDGET, Parameters
from contextrender_bridge.engine.policies import POLICIES
from contextrender_bridge.engine.text.tokens import call_parts
from contextrender_bridge.engine.text.transcript import Json
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import slow_rules
from tests.support.strategies import (
    BUDGETS,
    COUNTER,
    METHOD_POLICIES,
    AxisEmbedder,
    check_shown,
    decisions_of,
    modest,
    reader,
    render,
    transcripts,
)
from tests.support.transcripts import assistant, call, result, user

policies = st.sampled_from(METHOD_POLICIES)
PARAMETERS = st.sampled_from(
    [
        Parameters(),
        Parameters(weight_recency=0, weight_relevance=2, redundancy_penalty=0),
        Parameters(weight_reuse=3, recency_decay=0, reuse_rate=1, redundancy_penalty=2),
        Parameters(query_task_share=1),
        Parameters(query_task_share=0, redundancy_penalty=1),
    ]
)


@given(transcripts(), BUDGETS, st.sampled_from([*POLICIES]))
@settings(modest, max_examples=3 * modest.max_examples)
def test_prompt_fits_in_order_without_orphans(
    messages: list[Json], budget: int, policy: str
) -> None:
    rendered, prompt = render(messages, budget, policy)
    assert policy == "full" or rendered.tokens_after <= budget
    check_shown(messages, rendered, prompt)
    positions = [item["message"] for item in rendered.items]
    assert positions == sorted({*positions})
    replaced = {item["message"] for item in rendered.items if item["text"] is not None}
    for item, message in zip(rendered.items, prompt, strict=True):
        original = messages[item["message"]]
        same = {**original, "tool_calls": 0, "content": 0}
        assert {**message, "tool_calls": 0, "content": 0} == same
        if item["message"] not in replaced:
            assert message.get("content") == original.get("content")
        original_calls = original.get("tool_calls") or []
        arguments = item["arguments"] or [None] * len(item["calls"])
        new_calls = message.get("tool_calls") or []
        for place, cut, new_call in zip(item["calls"], arguments, new_calls, strict=True):
            if cut is not None:
                assert new_call["id"] == original_calls[place]["id"]
                assert call_parts(new_call)[0] == call_parts(original_calls[place])[0]
            else:
                assert new_call == original_calls[place]
    results = {p for p, message in enumerate(messages) if message["role"] == "tool"}
    assert rendered.complete == sorted(results & {*positions} - replaced)
    assert rendered.omitted == sorted(results - {*positions})


@given(transcripts(complete=True, longest=8), st.sampled_from([*POLICIES]), st.integers(0, 3))
@modest
def test_history_within_budget_is_unchanged(messages: list[Json], policy: str, spare: int) -> None:
    outside = slow_rules.outside_budget(messages)
    inside = [message for p, message in enumerate(messages) if p not in outside]
    size = slow_rules.tokens(inside, COUNTER.text)
    rendered, prompt = render(messages, size + spare, policy)
    assert prompt == messages
    assert rendered.tokens_before == rendered.tokens_after == size
    assert rendered.omitted == []
    if size > SMALLEST_BUDGET:
        over, _ = render(messages, size - 1, policy)
        assert policy == "full" or over.tokens_after < size


def by_axis(text: str) -> list[float]:
    return [float(x) for x in AxisEmbedder().embed([text])[0]]


@given(transcripts(), BUDGETS | st.sampled_from([1_000, 2_000]), PARAMETERS)
@modest
def test_scores_and_selection_equal_reference(
    messages: list[Json], budget: int, parameters: Parameters
) -> None:
    rendered, _ = render(messages, budget, parameters=parameters)
    if rendered.context.fits:
        return
    plan, scores = rendered.selection, rendered.selection.scores
    assert scores is not None
    candidates = slow_rules.candidates(
        messages, budget, COUNTER.text, by_axis, parameters.query_task_share
    )
    useful = [candidate.usefulness(parameters) for candidate in candidates]
    assert list(rendered.context.ages) == [candidate.age for candidate in candidates]
    assert scores.relevance is not None
    assert list(scores.relevance) == [candidate.relevance for candidate in candidates]
    assert scores.usefulness == pytest.approx(useful, abs=1e-12)

    retained_tokens = slow_rules.retain_text(messages, budget, COUNTER.text).tokens
    free = budget - (rendered.text_tokens if plan.text.cut else retained_tokens)
    selected, limits = slow_rules.choice(
        candidates,
        [float(usefulness) for usefulness in scores.usefulness],
        budget,
        free,
        parameters.redundancy_penalty,
    )
    assert list(plan.shown_order) == selected
    assert list(plan.complete) == [
        number for number in selected if not candidates[number].oversized
    ]
    assert plan.limits == limits


@given(transcripts(), BUDGETS)
@modest
def test_prune_selects_newest_results_that_fit(messages: list[Json], budget: int) -> None:
    rendered, _ = render(messages, budget, "prune")
    if rendered.context.fits:
        return
    free = budget - rendered.text_tokens
    selected = []
    candidates = slow_rules.candidates(messages, budget, COUNTER.text, by_axis, 0.4)
    for candidate in reversed(candidates):
        cost = budget + 1 if candidate.oversized else candidate.cost
        if candidate.may_show and cost <= free:
            selected.append(candidate.position)
            free -= cost
    assert rendered.complete == sorted(selected)
    assert rendered.selection.excerpts == {}


@given(transcripts(), BUDGETS, policies)
@modest
def test_retained_text_equals_reference(messages: list[Json], budget: int, policy: str) -> None:
    rendered, _ = render(messages, budget, policy)
    if rendered.context.fits:
        return
    expected = slow_rules.retain_text(messages, budget, COUNTER.text)
    retained = rendered.selection.text
    assert list(retained.dropped_turns) == expected.dropped_turns
    assert bool(retained.cut) == (expected.tokens > budget)
    positions = {item["message"] for item in rendered.items}
    assert not positions & expected.dropped_messages
    for position, message in enumerate(messages):
        if message["role"] == "tool" or position in expected.dropped_messages:
            continue
        if slow_rules.own_tokens(message, COUNTER.text) and position not in retained.cut:
            assert position in positions
    if retained.cut:
        assert rendered.text_tokens <= budget
    else:
        assert rendered.text_tokens == expected.tokens


def test_longest_kept_text_is_cut_first() -> None:
    messages = [user("the task " * 400), assistant("short"), user("now")]
    rendered, prompt = render(messages, 100)
    assert [item["message"] for item in rendered.items] == [0, 1, 2]
    assert prompt[1:] == messages[1:]
    assert {*rendered.selection.text.cut} == {0}
    assert 60 < rendered.tokens_after <= 100


def oversized(content: Any, later: str = "") -> list[Json]:
    return [
        user("find the total"),
        assistant("", call("a", "f"), call("b", "f")),
        result("b", "small"),
        result("a", content),
        user("and now? " + later),
    ]


LONG = "\n".join(f"line {n} of the log with item_{n:04}" for n in range(900))


@given(transcripts(), BUDGETS)
@modest
def test_oversized_result_is_marked_excerpt(messages: list[Json], budget: int) -> None:
    rendered, prompt = render(messages, budget)
    texts = reader(messages)
    contents = {
        item["message"]: message for item, message in zip(rendered.items, prompt, strict=True)
    }
    for number, limit in rendered.selection.limits.items():
        excerpt = rendered.selection.excerpts[number]
        position = rendered.context.history.results.message[number]
        message, text = contents[position], contents[position]["content"]
        assert messages[position]["role"] == "tool"
        assert excerpt.kind == "excerpt"
        assert excerpt.text == text != texts([position])[0]
        assert COUNTER.message(message) <= limit <= max(100, budget // 8)
        assert text.startswith(
            f"[Excerpt of a tool result of {COUNTER.message(messages[position])} tokens"
        )


def test_excerpt_keeps_head_tail_and_queried_values() -> None:
    rendered, prompt = render(oversized(LONG, "what about item_0455"), 4_000)
    text = prompt[3]["content"]
    assert [*rendered.selection.excerpts] == [1]
    assert "recall result 3 for all of it]\nline 0 of the log" in text
    assert "item_0455" in text
    assert text.rstrip().endswith("item_0899")
    assert rendered.complete == [2]
    assert rendered.omitted == []
    assert 400 < COUNTER.message(prompt[3]) <= 500


WEIGHTS = {
    "recency": (1.0, 0.0, 0.0),
    "reuse": (0.0, 1.0, 0.0),
    "relevance": (0.0, 0.0, 1.0),
    "recency_relevance": (1.0, 0.0, 1.0),
}


@pytest.mark.parametrize(("policy", "weights"), WEIGHTS.items())
def test_ablation_equals_its_weights(policy: str, weights: tuple[float, float, float]) -> None:
    messages = oversized(LONG)
    ablated, _ = render(messages, 300, policy, Parameters(weight_recency=9, recency_decay=0.7))
    weighted, _ = render(messages, 300, parameters=Parameters(*weights, recency_decay=0.7))
    assert decisions_of(ablated) == decisions_of(weighted)
