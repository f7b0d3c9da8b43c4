"""The additional policies stay within the budget, mark excerpts and do not depend on how a history
grew.
"""

import random
import re

import pytest
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.parameters import Parameters
from contextrender_bridge.engine.text.transcript import Json
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import (
    BUDGETS,
    COUNTER,
    METHOD_POLICIES,
    decisions_of,
    modest,
    render,
    transcripts,
)
from tests.support.transcripts import assistant, call, result

ADDITIONAL_POLICIES = (
    "semantic_retrieval",
    "reuse_density",
    "contextrender_excerpts",
    "contextrender_cache_aware",
)
IN_PARTS = ("reuse_density", "contextrender_excerpts", "contextrender_cache_aware")
PARAMETERS = st.sampled_from(
    [
        Parameters(),
        Parameters(rebuild_share=0.8),
        Parameters(newest_share=0),
        Parameters(newest_share=1, rebuild_share=1),
        Parameters(rebuild_share=0, cache_ttl_minutes=0),
    ]
)
MARK = re.compile(
    r"\[Excerpt: (\d+) of (\d+) tokens left out at \[?…\]?;(?: lines [\d, -]+(?: and others)?;)? "
    r"recall result (\d+) for all of it\]\n"
)
policies = st.sampled_from([*ADDITIONAL_POLICIES, *METHOD_POLICIES])
budgets = BUDGETS | st.sampled_from([1_500])


def agent_run(turns: int, seed: int = 0) -> list[Json]:
    """Return a long run with results of many sizes that later calls use."""
    dice = random.Random(seed)
    messages: list[Json] = [{"role": "user", "content": "Find the Ledger of Order_1 and audit it."}]
    for turn in range(turns):
        calls = [
            call(f"c{turn}_{place}", "read", f'{{"id": "Order_{dice.randint(0, turn)}"}}')
            for place in range(dice.choice([1, 1, 1, 2, 3]))
        ]
        sentence = f"I look at Order_{turn}." if dice.random() < 0.4 else None
        messages.append(assistant(sentence, *calls))
        for order in calls:
            lines = dice.choice([2, 5, 10, 30, 120])
            rows = [
                f"Order_{dice.randint(0, 3 * turn + 3)} row {row} hub_{dice.randint(0, 99)} moved"
                for row in range(lines)
            ]
            messages.append(result(order["id"], "\n".join(rows)))
        if dice.random() < 0.1:
            messages.append({"role": "user", "content": f"What about Order_{turn // 2}?"})
    return messages


def turns_of(messages: list[Json]) -> list[int]:
    """Return the number of messages before each model call, including the next one."""
    spoken = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    return [*spoken, len(messages)]


@given(transcripts(most_turns=9), budgets, policies, PARAMETERS, st.data())
@modest
def test_rendering_is_independent_of_how_history_grew(
    messages: list[Json], budget: int, policy: str, parameters: Parameters, data: st.DataObject
) -> None:
    history, at = History(), 0
    while at < len(messages):
        step = data.draw(st.integers(1, 5))
        history.extend(messages[at : at + step], COUNTER)
        at += step
        other = data.draw(st.sampled_from([None, *ADDITIONAL_POLICIES]))
        if other:
            render(messages[:at], budget, other, parameters, history=history)
    grown, prompt = render(messages, budget, policy, parameters, history=history)
    repeated, shown_again = render(messages, budget, policy, parameters, history=history)
    from_start, shown_afresh = render(messages, budget, policy, parameters)
    assert decisions_of(grown) == decisions_of(repeated) == decisions_of(from_start)
    assert prompt == shown_again == shown_afresh
    assert grown.tokens_after <= budget


@pytest.mark.parametrize("policy", IN_PARTS)
def test_excerpt_names_omitted_tokens_and_recall(policy: str) -> None:
    messages = agent_run(40)
    excerpt_count = 0
    for size in turns_of(messages)[::10]:
        rendered, prompt = render(messages[:size], 1_500, policy)
        replaced = {
            rendered.context.history.results.message[result]
            for result in rendered.selection.excerpts
        }
        for item, message in zip(rendered.items, prompt, strict=True):
            if item["message"] not in replaced:
                continue
            complete_text, text = messages[item["message"]]["content"], message["content"]
            match = MARK.match(text)
            assert match
            assert int(match[2]) == COUNTER.message(messages[item["message"]]) > int(match[1]) > 0
            assert int(match[3]) == item["message"]
            parts = re.split(r"(?:^| |(?<=\s))\[…\](?: |$)", text[match.end() :])
            at = -1
            for part in filter(None, parts):
                at = complete_text.index(part, at + 1)
            assert any(parts)
            excerpt_count += 1
    assert excerpt_count


@pytest.mark.parametrize("policy", IN_PARTS)
def test_newest_results_are_complete_within_half_of_remaining_tokens(policy: str) -> None:
    messages = agent_run(40)
    for size in turns_of(messages)[5::8]:
        rendered, _ = render(messages[:size], 2_000, policy)
        context = rendered.context
        free = context.budget - rendered.text_tokens
        newest = [result for result in range(len(context.costs)) if context.ages[result] == 1]
        if sum(context.costs[result] for result in newest) <= free / 2:
            assert {*newest} <= {*rendered.selection.complete}


@pytest.mark.parametrize("policy", IN_PARTS)
def test_large_result_is_excerpt_of_head_and_new_values(policy: str) -> None:
    rows = [f"line {n} of the log" for n in range(900)]
    rows[455] = "line 455 says Invoice_77 is due"
    messages = [*agent_run(3), *agent_run(1, seed=5)[1:2]]
    (first, *_) = messages[-1]["tool_calls"]
    messages[-1]["tool_calls"] = [first]
    messages.append(result(first["id"], "\n".join(rows)))
    rendered, prompt = render(messages, 1_500, policy)
    text = prompt[-1]["content"]
    assert rendered.selection.excerpts[len(rendered.context.costs) - 1].kind == "excerpt"
    assert "\nline 0 of the log\n" in text
    assert "Invoice_77" in text
    assert 80 < COUNTER.message(prompt[-1]) <= 750
