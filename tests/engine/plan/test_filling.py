"""The newest call and its result are always visible, truncated if needed."""

import json
from typing import Any

import pytest
from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.plan.truncated_calls import cut_call
from contextrender_bridge.engine.policies import POLICIES
from contextrender_bridge.engine.text.transcript import Json
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.policies.test_policies import IN_PARTS, agent_run, turns_of
from tests.support.strategies import COUNTER, modest, render, transcripts
from tests.support.transcripts import step


def write(words: int, answer: str = "written") -> list[Json]:
    """Return a call with a whole file as argument, and its short result."""
    text = " ".join(f"line_{n}" for n in range(words // 3))
    return step("w", "write", json.dumps({"path": "src/App_1.py", "content": text}), answer)


def newest_of(rendered: RenderedCall) -> set[int]:
    """Return the results with a call after the last assistant message."""
    history = rendered.context.history
    return {
        result
        for result, message in enumerate(history.results.message)
        if message > history.last_assistant and history.results.call_event[result] >= 0
    }


def shown_in(rendered: RenderedCall) -> set[int]:
    return {*rendered.selection.shown_results}


@pytest.mark.parametrize("policy", IN_PARTS)
@pytest.mark.parametrize(("budget", "words"), [(10_000, 5_200), (20_000, 22_000)])
def test_large_write_and_its_result_are_kept(policy: str, budget: int, words: int) -> None:
    messages = [*agent_run(40), *write(words)]
    rendered, prompt = render(messages, budget, policy)
    assert prompt[-1] == messages[-1]
    assert prompt[-2]["tool_calls"][0]["id"] == "w"
    written_arguments = json.loads(prompt[-2]["tool_calls"][0]["function"]["arguments"])
    assert written_arguments["path"] == "src/App_1.py"
    assert rendered.tokens_after <= budget
    full_tokens = COUNTER.message(messages[-2])
    if full_tokens > budget:
        assert "characters left out …]" in written_arguments["content"]
        assert written_arguments["content"].startswith("line_0 line_1 ")
        assert len(written_arguments["content"]) < 22_000


@pytest.mark.parametrize("policy", IN_PARTS)
def test_newest_results_are_visible_at_every_call(policy: str) -> None:
    messages = [*agent_run(15), *write(1_500), *agent_run(12, seed=3)[1:]]
    for size in turns_of(messages)[4::9]:
        rendered, _ = render(messages[:size], 1_500, policy)
        assert newest_of(rendered) <= shown_in(rendered)


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=400), max_size=9), st.integers(0, 300))
@modest
def test_truncated_call_is_json_within_its_limit(arguments: dict[str, Any], limit: int) -> None:
    text = json.dumps(arguments)
    truncated = cut_call("write", text, limit, COUNTER)
    if truncated is None:
        assert limit < 8
        return
    assert truncated.tokens <= limit
    assert truncated.tokens == COUNTER.call(
        {"function": {"name": "write", "arguments": truncated.text}}
    )
    assert isinstance(json.loads(truncated.text), dict)
    if COUNTER.call({"function": {"name": "write", "arguments": text}}) * 2 <= limit:
        assert json.loads(truncated.text) == arguments


@given(transcripts(), st.sampled_from([700, 1_500]), st.sampled_from(sorted(POLICIES)))
@modest
def test_agent_defaults_show_newest_results(messages: list[Json], budget: int, policy: str) -> None:
    rendered, _ = render(messages, budget, policy, agent_defaults=True)
    assert newest_of(rendered) <= shown_in(rendered)
    if policy != "full":
        assert rendered.tokens_after <= budget
