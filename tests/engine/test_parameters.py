"""Pinned results are visible under every policy within the budget."""

import itertools
import json

import pytest
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.parameters import Parameters, Pins
from contextrender_bridge.engine.policies import POLICIES
from contextrender_bridge.engine.text.transcript import Json
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.policies.test_policies import agent_run, turns_of
from tests.support.strategies import COUNTER, modest, render, transcripts
from tests.support.transcripts import step

SKILL = Pins(pinned_tools=("load_*",))


def loaded(number: int, words: int) -> list[Json]:
    """Return a call of a different tool whose result is never used."""
    text = f"skill {number}: " + "always say what you did. " * (words // 5)
    return step(f"s{number}", "load_skill", json.dumps({"name": f"skill {number}"}), text)


def run(*sizes: int) -> list[Json]:
    skills = itertools.chain.from_iterable(loaded(n, size) for n, size in enumerate(sizes))
    question, *later_messages = agent_run(40)
    return [question, *skills, *later_messages]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_pinned_result_is_complete_under_every_policy(policy: str) -> None:
    agent_defaults = len(policy) % 2 == 0  # for about half of them
    pins = SKILL if agent_defaults else Pins(pinned_calls=("s0",))
    messages = run(300)
    without, _ = render(messages, 3_000, policy, agent_defaults=agent_defaults)
    assert not without.pinned
    rendered, prompt = render(messages, 3_000, policy, agent_defaults=agent_defaults, pins=pins)
    assert rendered.pinned == {2: "complete"}
    assert messages[2] in prompt
    assert "s0" in [call["id"] for m in prompt for call in m.get("tool_calls", ())]
    if policy != "full":
        assert rendered.tokens_after <= 3_000


@pytest.mark.parametrize("policy", ["prune", "contextrender", "reuse_density"])
def test_pins_above_half_the_budget_become_excerpts(policy: str) -> None:
    rendered, prompt = render(run(700, 700, 700, 700), 4_000, policy, pins=SKILL)
    displays = rendered.pinned
    assert list(displays) == [2, 4, 6, 8]
    assert displays[8] == "complete"
    assert "excerpt" in displays.values()
    plan, results = rendered.selection, rendered.context.history.results
    pinned = [result for result in range(4) if result in plan.shown_results]
    sizes = [
        results.call_tokens[result]
        + (plan.excerpts[result].tokens if result in plan.excerpts else results.tokens[result])
        for result in pinned
    ]
    assert sum(sizes) <= (4_000 - rendered.text_tokens) / 2
    assert rendered.tokens_after <= 4_000
    texts = [str(message["content"]) for message in prompt]
    assert any(text.startswith("[Excerpt: ") and "always say" in text for text in texts)


def test_cache_aware_policy_keeps_pins_and_prefix() -> None:
    messages = run(400, 400)
    history = History()
    before: list[Json] = []
    same = calls = 0
    for size in turns_of(messages)[3:]:
        history.extend(messages[len(history) : size], COUNTER)
        arguments = ("contextrender_cache_aware", Parameters(), history)
        rendered, prompt = render(messages[:size], 5_000, *arguments, pins=SKILL)
        assert rendered.pinned == {2: "complete", 4: "complete"}
        assert rendered.tokens_after <= 5_000
        same += json.dumps(prompt[: len(before)]) == json.dumps(before)
        calls += 1
        before = prompt
    assert same > calls / 3


@given(transcripts(), st.sampled_from([200, 700, 1_500]), st.sampled_from(sorted(POLICIES)))
@modest
def test_budget_holds_for_any_pins(messages: list[Json], budget: int, policy: str) -> None:
    rendered, _ = render(messages, budget, policy, pins=Pins(pinned_tools=("*",)))
    calls = [call for call in rendered.context.history.results.call_event if call >= 0]
    assert len(rendered.pinned) == len(calls)
    if policy != "full":
        assert rendered.tokens_after <= budget
