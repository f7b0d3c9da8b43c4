"""The result score, BM25, the text limit and retrieval follow the formulas in docs/policies.md."""

import math
import re

import pytest
from contextrender_bridge.engine.history.reuse import extract_values
from contextrender_bridge.engine.history.text_index import segments_of
from contextrender_bridge.engine.parameters import Parameters
from contextrender_bridge.engine.replay.recall_measures import recall_tokens
from contextrender_bridge.engine.text.tokens import call_parts, content_text
from contextrender_bridge.engine.text.transcript import Json
from hypothesis import given

from tests.engine.policies.test_policies import agent_run, turns_of
from tests.support import slow_rules
from tests.support.strategies import BUDGETS, COUNTER, modest, render, transcripts
from tests.support.transcripts import step

WORD = re.compile(r"[A-Za-z0-9_]{2,}")


def tracked(text: str) -> set[str]:
    return extract_values(text) | recall_tokens(text)


def words(text: str) -> set[str]:
    return set(WORD.findall(text.lower()))


def bm25(results: list[str], query: set[str]) -> list[float]:
    """Return BM25 scores with k1 = 1.2 and b = 0.75; a word's frequency counts its segments."""
    segment_words = [[words(part) for part in segments_of(text)] for text in results]
    lengths = [sum(map(len, parts)) for parts in segment_words]
    mean = max(1.0, sum(lengths) / len(lengths))
    scores = []
    for parts, length in zip(segment_words, lengths, strict=True):
        score = 0.0
        for word in query:
            holders = sum(any(word in part for part in other) for other in segment_words)
            if holders:
                idf = math.log(1 + (len(segment_words) - holders + 0.5) / (holders + 0.5))
                frequency = sum(word in part for part in parts)
                norm = 1.2 * (0.25 + 0.75 * length / mean)
                score += idf * frequency * 2.2 / (frequency + norm)
        scores.append(score)
    return scores


def result_scores(messages: list[Json]) -> list[float]:
    """Return the result score of every result before the next model call."""
    answers, numbers = slow_rules.answers(messages), slow_rules.turns(messages)
    owner: dict[str, int] = {}
    results: list[int] = []
    introduced: list[int] = []
    use_turns: list[dict[int, None]] = []
    task = latest = ""
    for position, message in enumerate(messages):
        text = content_text(message.get("content"))
        if message["role"] == "tool":
            new = tracked(text) - owner.keys()
            owner |= dict.fromkeys(new, len(results))
            results.append(position)
            introduced.append(len(new))
            use_turns.append({})
        elif message["role"] == "assistant":
            calls = [call_parts(call) for call in message.get("tool_calls") or ()]
            for part in (text, *(f"{name} {arguments}" for name, arguments in calls)):
                for token in tracked(part) & owner.keys():
                    use_turns[owner[token]][numbers[position]] = None
            latest = "\n".join([text, *(arguments for _, arguments in calls)])
        elif message["role"] == "user":
            task = task or text
    turn = sum(message["role"] == "assistant" for message in messages) + 1
    texts = [content_text(messages[position].get("content")) for position in results]
    by_latest, by_task = bm25(texts, words(latest)), bm25(texts, words(task))
    scores = []
    for result, position in enumerate(results):
        turns_since_use = max(1, turn - max([numbers[position], *use_turns[result]]))
        cost = COUNTER.message(messages[position])
        if position in answers:
            call_position, place = answers[position]
            cost += COUNTER.call(messages[call_position]["tool_calls"][place])
        age = turns_since_use * (1 + turns_since_use / 200)
        scores.append(
            (1 + introduced[result]) ** 0.4
            * (1 + len(use_turns[result])) ** 0.6
            * (1 + by_latest[result]) ** 0.2
            * (1 + by_task[result]) ** 0.2
            / (age * max(30, cost) ** 0.75)
        )
    return scores


@given(transcripts(longest=8), BUDGETS)
@modest
def test_reuse_density_equals_formula(messages: list[Json], budget: int) -> None:
    if sum(message["role"] == "user" for message in messages) > 1:
        # The reference takes the first user message with text as the task.
        messages = [m for m in messages if m["role"] != "user" or content_text(m.get("content"))]
    rendered, _ = render(messages, budget, "reuse_density")
    if rendered.selection.scores and len(rendered.context.costs):
        assert list(rendered.selection.scores.score) == pytest.approx(
            result_scores(messages), rel=1e-9
        )


def test_reuse_density_selects_greedily_by_score() -> None:
    messages = agent_run(30)
    for size in turns_of(messages)[10::6]:
        alone = Parameters(newest_share=0)
        rendered, _ = render(messages[:size], 1_500, "reuse_density", alone)
        context, plan = rendered.context, rendered.selection
        scores, free = result_scores(messages[:size]), 1_500 - rendered.text_tokens
        selected = []
        for result in sorted(
            range(len(scores)), key=lambda result: (-round(scores[result], 12), result)
        ):
            if context.costs[result] <= free:
                selected.append(result)
                free -= context.costs[result]
        assert list(plan.complete) == selected
        assert plan.excerpts == {}


def talk(turns: int = 12) -> list[Json]:
    messages: list[Json] = [{"role": "user", "content": "the task"}]
    for turn in range(turns):
        messages += step(f"c{turn}", "f", "{}", f"Item_{turn} " + "row " * 120, "word " * 100)
    return [*messages, {"role": "user", "content": "go on"}]


@pytest.mark.parametrize(
    "policy", ["reuse_density", "contextrender_excerpts", "contextrender_cache_aware"]
)
def test_text_above_half_the_budget_is_reduced_to_three_tenths(policy: str) -> None:
    messages = talk()
    rendered, _ = render(messages, 2_000, policy)
    text = rendered.selection.text
    assert (
        600 - 105
        < rendered.text_tokens
        <= (600 if policy != "contextrender_cache_aware" else 1_000)
    )
    assert rendered.selection.complete
    assert list(text.dropped) == list(range(1, 1 + 2 * len(text.dropped), 2))
    assert not {*text.dropped} & {0, len(messages) - 3, len(messages) - 1}
    call_messages = rendered.context.history.results.call_message
    removed = {result for result, message in enumerate(call_messages) if message in text.dropped}
    assert removed & rendered.selection.shown_results
    calls = [item for item in rendered.items if item["message"] in text.dropped]
    assert calls
    assert all(item["calls"] and item["text"] == "" for item in calls)
    roomy, _ = render(talk(8), 1_700, policy)
    assert roomy.selection.text.dropped == ()


@pytest.mark.parametrize(("task_tokens", "text_limit"), [(10, 24_000), (30_000, 33_000)])
def test_text_in_a_large_budget_leaves_room_for_results(task_tokens: int, text_limit: int) -> None:
    messages: list[Json] = [{"role": "user", "content": "word " * task_tokens}]
    for turn in range(50):
        result = f"Item_{turn} " + "row " * 3_000
        messages += step(f"c{turn}", "f", "{}", result, "word " * 1_000)
    messages.append({"role": "user", "content": "go on"})
    rendered, _ = render(messages, 160_000, "contextrender_excerpts")
    assert task_tokens < rendered.text_tokens <= text_limit
    text = rendered.selection.text
    assert 0 not in {*text.cut, *text.dropped}


@given(transcripts(), BUDGETS)
@modest
def test_retrieval_selects_recent_then_nearest_results(messages: list[Json], budget: int) -> None:
    rendered, _ = render(messages, budget, "semantic_retrieval")
    context, plan = rendered.context, rendered.selection
    if context.fits:
        return
    assert plan.scores is not None
    cosine = plan.scores.relevance
    assert cosine is not None
    free = budget - rendered.text_tokens
    order = [result for result in range(len(context.costs)) if context.eligible[result]]
    recent = sorted((result for result in order if context.ages[result] <= 3), reverse=True)
    selected: list[int] = []
    used_tokens = 0
    for candidates, limit in (
        (recent, min(free, 0.6 * budget)),
        (sorted(order, key=lambda result: (-cosine[result], -result)), free),
    ):
        for result in candidates:
            if result not in selected and used_tokens + context.costs[result] <= limit:
                selected.append(result)
                used_tokens += context.costs[result]
    assert list(plan.complete) == selected
