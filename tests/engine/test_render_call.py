"""What is shown under a budget: never too much, never an orphan, and what the plain rules say."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.call.render_call import Rendered, render_call
from engine.history.vectors import unit
from engine.models.embeddings import EmbeddingUnavailable, Vectors
from engine.parameters import SMALLEST_BUDGET, Parameters
from engine.plan.relevance import RESULT_CHARACTERS, TASK_CHARACTERS, Relevance
from engine.policies import POLICIES
from engine.text.tokens import call_parts
from engine.text.transcript import Json, check_messages
from tests.support import slow_rules
from tests.support.strategies import (
    BUDGETS,
    COUNTER,
    METHOD_POLICIES,
    WITHIN_BUDGET,
    AxisEmbedder,
    chosen,
    modest,
    reader,
    recorded,
    render,
    transcripts,
)

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


def charged(messages: Sequence[Json], rendered: Rendered, shown: list[Json]) -> int:
    """The tokens of what is shown, recounted, without what is outside the budget."""
    outside = slow_rules.outside_budget(messages)
    inside = [
        message
        for message, item in zip(shown, rendered.items, strict=True)
        if item.message not in outside
    ]
    assert slow_rules.tokens(inside, COUNTER.text) == sum(map(COUNTER.message, inside))
    return slow_rules.tokens(inside, COUNTER.text)


@given(transcripts(), BUDGETS, st.sampled_from(WITHIN_BUDGET))
@modest
def test_a_rendering_never_exceeds_the_budget(
    messages: list[Json], budget: int, policy: str
) -> None:
    rendered, shown = render(messages, budget, policy)
    assert charged(messages, rendered, shown) == rendered.tokens_after <= budget


@given(transcripts(), BUDGETS, st.sampled_from([*POLICIES]))
@modest
def test_there_is_never_an_orphan_on_either_side(
    messages: list[Json], budget: int, policy: str
) -> None:
    _, shown = render(messages, budget, policy)
    check_messages(shown, 0)
    answered = slow_rules.answers(shown)
    calls = sum(len(message.get("tool_calls") or []) for message in shown)
    assert len(answered) == calls == sum(message["role"] == "tool" for message in shown)


@given(transcripts(), BUDGETS, st.sampled_from([*POLICIES]))
@modest
def test_what_is_shown_is_the_original_in_its_order(
    messages: list[Json], budget: int, policy: str
) -> None:
    rendered, shown = render(messages, budget, policy)
    positions = [item.message for item in rendered.items]
    assert positions == sorted({*positions})
    replaced = {item.message for item in rendered.items if item.text is not None}
    for item, message in zip(rendered.items, shown, strict=True):
        original = messages[item.message]
        same = {**original, "tool_calls": 0, "content": 0}
        assert {**message, "tool_calls": 0, "content": 0} == same
        if item.message not in replaced:
            assert message.get("content") == original.get("content")
        asked, shortened = original.get("tool_calls") or [], dict(item.arguments)
        for place, call in zip(item.calls, message.get("tool_calls") or [], strict=True):
            if place in shortened:
                assert call["id"] == asked[place]["id"]
                assert call_parts(call)[0] == call_parts(asked[place])[0]
            else:
                assert call == asked[place]
    complete = {p for p in positions if messages[p]["role"] == "tool"} - replaced
    assert rendered.visible == sorted(complete)
    results = {p for p, message in enumerate(messages) if message["role"] == "tool"}
    assert rendered.omitted == sorted(results - {*positions})


@given(transcripts(), BUDGETS, st.sampled_from([*POLICIES]))
@modest
def test_every_shown_result_stands_by_the_call_it_answers(
    messages: list[Json], budget: int, policy: str
) -> None:
    rendered, _ = render(messages, budget, policy)
    answered = slow_rules.answers(messages)
    shown_calls = {(item.message, place) for item in rendered.items for place in item.calls}
    shown_results = [i.message for i in rendered.items if messages[i.message]["role"] == "tool"]
    assert {answered[position] for position in shown_results} == shown_calls


@given(transcripts(complete=True, longest=8), st.sampled_from([*POLICIES]), st.integers(0, 3))
@modest
def test_what_fits_is_returned_unchanged(messages: list[Json], policy: str, spare: int) -> None:
    outside = slow_rules.outside_budget(messages)
    inside = [message for p, message in enumerate(messages) if p not in outside]
    size = slow_rules.tokens(inside, COUNTER.text)
    rendered, shown = render(messages, size + spare, policy)
    assert shown == messages
    assert rendered.tokens_before == rendered.tokens_after == size
    assert rendered.omitted == []
    if size > SMALLEST_BUDGET:
        over, _ = render(messages, size - 1, policy)
        assert policy == "full" or over.tokens_after < size


@given(transcripts(), BUDGETS, policies)
@modest
def test_rendering_twice_is_rendering_once(messages: list[Json], budget: int, policy: str) -> None:
    history = recorded(messages)
    first, shown = render(messages, budget, policy, history=history)
    second, again = render(messages, budget, policy, history=history)
    fresh, afresh = render(messages, budget, policy)
    assert chosen(first) == chosen(second) == chosen(fresh)
    assert shown == again == afresh


def by_axis(text: str) -> list[float]:
    """The double's vector of one text, as plain numbers."""
    return [float(x) for x in AxisEmbedder().embed([text])[0]]


@given(transcripts(), BUDGETS | st.sampled_from([1_000, 2_000]), PARAMETERS)
@modest
def test_scores_and_the_greedy_choice_equal_a_slow_rewrite(
    messages: list[Json], budget: int, parameters: Parameters
) -> None:
    rendered, _ = render(messages, budget, parameters=parameters)
    if rendered.view.fits:
        return
    plan, scores = rendered.plan, rendered.plan.scores
    assert scores is not None
    found = slow_rules.candidates(
        messages, budget, COUNTER.text, by_axis, parameters.query_task_share
    )
    useful = [candidate.usefulness(parameters) for candidate in found]
    assert list(rendered.view.ages) == [candidate.age for candidate in found]
    assert scores.relevance is not None
    assert list(scores.relevance) == [candidate.relevance for candidate in found]
    assert scores.usefulness == pytest.approx(useful, abs=1e-12)

    kept = slow_rules.retained(messages, budget, COUNTER.text).tokens
    free = budget - (plan.retained.tokens if plan.retained.excerpts else kept)
    taken, limits = slow_rules.choice(
        found, [float(u) for u in scores.usefulness], budget, free, parameters.redundancy_penalty
    )
    assert plan.shown_order == taken
    assert plan.taken == [result for result in taken if not found[result].oversized]
    assert plan.replaced == limits


@given(transcripts(), BUDGETS)
@modest
def test_prune_takes_the_newest_that_fit(messages: list[Json], budget: int) -> None:
    rendered, _ = render(messages, budget, "prune")
    if rendered.view.fits:
        return
    free = budget - rendered.plan.retained.tokens
    taken = []
    found = slow_rules.candidates(messages, budget, COUNTER.text, by_axis, 0.4)
    for candidate in reversed(found):
        cost = budget + 1 if candidate.oversized else candidate.cost
        if candidate.may_show and cost <= free:
            taken.append(candidate.position)
            free -= cost
    assert rendered.visible == sorted(taken)
    assert rendered.texts == {}


@given(transcripts(), BUDGETS, policies)
@modest
def test_retained_text_equals_a_slow_rewrite(
    messages: list[Json], budget: int, policy: str
) -> None:
    rendered, _ = render(messages, budget, policy)
    if rendered.view.fits:
        return
    kept = slow_rules.retained(messages, budget, COUNTER.text)
    retained = rendered.plan.retained
    assert list(retained.left_turns) == kept.left_turns
    assert bool(retained.excerpts) == (kept.tokens > budget)
    positions = {item.message for item in rendered.items}
    assert not positions & kept.left_messages
    for position, message in enumerate(messages):
        if message["role"] == "tool" or position in kept.left_messages:
            continue
        if slow_rules.own_tokens(message, COUNTER.text) and position not in retained.excerpts:
            assert position in positions
    if retained.excerpts:
        assert retained.tokens <= budget
    else:
        assert retained.tokens == kept.tokens


@given(transcripts(), BUDGETS, policies)
@modest
def test_the_first_user_message_and_the_last_turn_never_leave(
    messages: list[Json], budget: int, policy: str
) -> None:
    rendered, _ = render(messages, budget, policy)
    history, left = rendered.view.history, rendered.plan.retained.left_messages
    assert not {history.first_user, history.last_user, history.last_assistant} & left
    assert not left & slow_rules.outside_budget(messages)
    newest = [p for p, turn in enumerate(slow_rules.turns(messages)) if turn >= history.assistants]
    assert not left & {*newest}


def test_only_the_oldest_turns_that_must_leave_do() -> None:
    words = " word" * 96
    messages: list[Json] = [{"role": "user", "content": "the task"}]
    for number in range(4):
        messages += [
            {"role": "assistant", "content": words, "tool_calls": [call(f"c{number}")]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "ok"},
        ]
    messages.append({"role": "user", "content": "go on"})
    rendered, _ = render(messages, 210)
    assert rendered.plan.retained.left_turns == (1, 2)
    assert [item.message for item in rendered.items] == [0, 5, 7, 9]
    rendered, _ = render(messages, 312)
    assert rendered.plan.retained.left_turns == (1,)
    assert rendered.visible == []
    assert rendered.omitted == [2, 4, 6, 8]


def test_texts_that_may_not_leave_are_cut_the_longest_first() -> None:
    messages: list[Json] = [
        {"role": "user", "content": "the task " * 400},
        {"role": "assistant", "content": "short"},
        {"role": "user", "content": "now"},
    ]
    rendered, shown = render(messages, 100)
    assert [item.message for item in rendered.items] == [0, 1, 2]
    assert shown[1:] == messages[1:]
    assert {*rendered.plan.retained.excerpts} == {0}
    assert 60 < rendered.tokens_after <= 100


def call(call_id: str, arguments: Any = "{}") -> Json:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}


def oversized(content: Any, later: str = "") -> list[Json]:
    return [
        {"role": "user", "content": "find the total"},
        {"role": "assistant", "content": "", "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "b", "content": "small"},
        {"role": "tool", "tool_call_id": "a", "content": content},
        {"role": "user", "content": "and now? " + later},
    ]


LONG = "\n".join(f"line {n} of the log with item_{n:04}" for n in range(900))


@given(transcripts(), BUDGETS)
@modest
def test_an_oversized_result_is_shown_as_a_marked_excerpt_within_its_limit(
    messages: list[Json], budget: int
) -> None:
    rendered, shown = render(messages, budget)
    texts = reader(messages)
    for item, message in zip(rendered.items, shown, strict=True):
        if item.result < 0:
            continue
        position, text = item.message, message["content"]
        assert messages[position]["role"] == "tool"
        assert rendered.kinds[item.result] == "excerpt"
        assert rendered.texts[item.result] == text != texts(position)
        limit = rendered.plan.replaced[item.result]
        assert COUNTER.message(message) <= limit <= max(100, budget // 8)
        assert text.startswith(
            f"[Excerpt of a tool result of {COUNTER.message(messages[position])} tokens"
        )


def test_an_excerpt_keeps_head_tail_and_the_values_in_question() -> None:
    rendered, shown = render(oversized(LONG, "what about item_0455"), 4_000)
    text = shown[3]["content"]
    assert rendered.kinds == {1: "excerpt"}
    assert "recall result 3 for all of it]\nline 0 of the log" in text
    assert "item_0455" in text
    assert text.rstrip().endswith("item_0899")
    assert rendered.visible == [2]
    assert rendered.omitted == []
    assert 400 < COUNTER.message(shown[3]) <= 500


def test_an_older_oversized_result_gets_what_complete_results_leave_over() -> None:
    messages: list[Json] = [
        *oversized(LONG),
        {"role": "assistant", "content": "", "tool_calls": [call("c"), call("d")]},
        {"role": "tool", "tool_call_id": "c", "content": "word " * 1_500},
        {"role": "tool", "tool_call_id": "d", "content": LONG},
    ]
    roomy, _ = render(messages, 4_000)
    assert roomy.plan.shown_order[-1] == 1
    assert roomy.plan.replaced == {3: 500, 1: 500}
    assert roomy.visible == [2, 6]
    tight, _ = render(messages, 2_200)
    assert tight.plan.replaced == {3: 275, 1: 275}
    messages[-1] = {**messages[-1], "content": "word " * 560}
    tight, _ = render(messages, 2_200)
    assert tight.plan.replaced == {}
    assert tight.visible == [2, 6, 7]


@pytest.mark.parametrize(("words", "kind"), [(490, "complete"), (491, "excerpt")])
def test_a_result_that_fits_the_whole_budget_is_not_oversized(words: int, kind: str) -> None:
    asking = {"role": "assistant", "content": "", "tool_calls": [call("a"), call("unanswered")]}
    answer = {"role": "tool", "tool_call_id": "a", "content": "word" + " word" * (words - 1)}
    assert COUNTER.call(call("a")) + COUNTER.message(answer) == words + 10
    rendered, _ = render([asking, answer], 500)
    assert rendered.visible == ([1] if kind == "complete" else [])
    assert [*rendered.kinds.values()] == ([] if kind == "complete" else [kind])


@pytest.mark.parametrize("budget", [200, 300, 799])
def test_a_small_budget_still_has_room_for_a_whole_mark(budget: int) -> None:
    messages = oversized(LONG)
    rendered, shown = render(messages, budget)
    assert rendered.kinds == {1: "excerpt"}
    assert "recall result 3 for all of it]" in shown[3]["content"]
    assert COUNTER.message(shown[3]) <= 100
    assert charged(messages, rendered, shown) == rendered.tokens_after <= budget


def test_a_compaction_stands_in_when_there_is_one_that_fits() -> None:
    messages = oversized(LONG)
    asked: list[tuple[int, int]] = []

    def rendered_with(made: str | None) -> Rendered:
        def compact(result: int, limit: int) -> str | None:
            asked.append((result, limit))
            return made

        return render_call(
            recorded(messages),
            budget=1_000,
            policy="contextrender",
            parameters=Parameters(),
            counter=COUNTER,
            embedder=AxisEmbedder(),
            text_of=reader(messages),
            compact=compact,
        )

    good = rendered_with("the total is 41")
    assert good.kinds == {1: "compaction"}
    assert good.texts[1].startswith("[Compaction of a tool result of ")
    assert good.texts[1].endswith("\nthe total is 41")
    assert rendered_with("too long " * 300).kinds == {1: "excerpt"}
    assert rendered_with(None).kinds == {1: "excerpt"}
    assert rendered_with("").kinds == {1: "excerpt"}
    assert [result for result, _ in asked] == [1] * 4
    assert all(0 < limit < 125 for _, limit in asked)


def test_a_call_larger_than_the_budget_is_left_out_with_its_result() -> None:
    messages: list[Json] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [call("a", "x " * 500), call("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "tiny"},
        {"role": "tool", "tool_call_id": "b", "content": "other"},
    ]
    for policy in METHOD_POLICIES:
        rendered, shown = render(messages, 100, policy)
        assert [item.message for item in rendered.items] == [0, 1, 3]
        assert shown[1]["tool_calls"] == [call("b")]


class Unavailable:
    """A labelled double: a provider that is down."""

    name = "down"

    def embed(self, texts: Sequence[str]) -> Vectors:
        raise EmbeddingUnavailable("no answer")


class Spy(AxisEmbedder):
    """The double, remembering every text it was given."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        return super().embed(texts)


class Letters(Spy):
    """The double, with vectors that count the letters a and b."""

    name = "letters"

    def embed(self, texts: Sequence[str]) -> Vectors:
        super().embed(texts)
        counts = [np.array([text.count("a"), text.count("b")], np.float32) for text in texts]
        return np.array([unit(count) for count in counts])


def test_the_query_is_the_task_and_what_was_said_last() -> None:
    messages: list[Json] = [
        {"role": "user", "content": "a" * 3_000},
        {"role": "assistant", "content": "old"},
        {"role": "tool", "tool_call_id": "x", "content": "a" * 9_000},
        {"role": "assistant", "content": "bb"},
        {"role": "user", "content": "b"},
    ]
    letters = Letters()
    history = recorded(messages)
    relevance = Relevance(history, letters, reader(messages), 0.4)
    found = relevance()
    assert letters.asked == ["b\nbb", "a" * TASK_CHARACTERS, "a" * RESULT_CHARACTERS]
    assert found == pytest.approx([0.4 / np.hypot(0.4, 0.6)], abs=1e-6)


@pytest.mark.parametrize(
    ("policy", "weights"),
    [
        ("recency", (1.0, 0.0, 0.0)),
        ("reuse", (0.0, 1.0, 0.0)),
        ("relevance", (0.0, 0.0, 1.0)),
        ("recency_relevance", (1.0, 0.0, 1.0)),
    ],
)
def test_an_ablation_is_the_policy_with_other_weights(
    policy: str, weights: tuple[float, float, float]
) -> None:
    messages = oversized(LONG)
    ablated, _ = render(messages, 300, policy, Parameters(weight_recency=9, recency_decay=0.7))
    weighted, _ = render(messages, 300, parameters=Parameters(*weights, recency_decay=0.7))
    assert chosen(ablated) == chosen(weighted)
