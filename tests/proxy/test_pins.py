"""Results that the caller keeps: pinned results, and results of bypassed tools."""

import uuid
from typing import Any

import pytest

from tests.proxy.agents import ChatAgent, MessagesAgent, ResponsesAgent, finding
from tests.proxy.conftest import Setup, Start

TOOL_AGENTS = [(ChatAgent, "c"), (MessagesAgent, "t"), (ResponsesAgent, "k")]


@pytest.mark.parametrize(("kind", "id"), TOOL_AGENTS)
def test_results_of_pinned_calls_are_kept(setup: Setup, kind: Any, id: str) -> None:
    plain, agent = (kind(setup, uuid.uuid4().hex).add_turns(9) for _ in range(2))
    assert finding(1) not in plain.results(plain.run(1)[0][plain.key])
    agent.headers = {"x-contextrender-pin-calls": f"{id}1, none"}
    assert finding(1) in agent.results(agent.run(1)[0][agent.key])
    assert agent.response.headers["x-contextrender-pinned"] == "1 complete"
    assert int(agent.response.headers["x-contextrender-tokens-after"]) <= 600


def rename(agent: ChatAgent, calls: int) -> None:
    """Rename the tool of the first calls to `Skill`."""
    for item in [item for item in agent.items if item.get("tool_calls")][:calls]:
        item["tool_calls"][0]["function"]["name"] = "Skill"


def results_in_prompt(agent: ChatAgent) -> list[str]:
    agent.post()
    return agent.results(agent.setup.model.requests[-1].json["messages"])


def test_pins_from_settings_and_session(start: Start) -> None:
    setup = start(pin_tools=frozenset({"Skill"}), budget=1200)
    agent = ChatAgent(setup, session := uuid.uuid4().hex).add_turns(10)
    rename(agent, 1)
    assert finding(0) in results_in_prompt(agent)
    setup.service.sync(session, agent.items, settings={"pinned_calls": ["c2"]})
    assert {finding(0), finding(2)} <= set(results_in_prompt(agent))


def test_invalid_pins_forward_history_unchanged(setup: Setup) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    for name, value in (
        ("pin-tools", "a[b"),
        ("pin-calls", "x" * 201),
        ("bypass-tools", "y" * 201),
    ):
        headers = {f"x-contextrender-{name}": value}
        response = setup.post("/v1/chat/completions", body, **headers)
        assert response.headers["x-contextrender-fail-open"] == f"invalid_{name}"
        assert setup.model.requests[-1].json == body
        refusal = setup.post("/v1/compress", body, **headers)
        assert (refusal.status_code, refusal.json()["error"]["code"]) == (422, "invalid_request")


def test_results_of_bypassed_tools_are_kept(setup: Setup) -> None:
    agent = MessagesAgent(setup, uuid.uuid4().hex).add_turns(9)
    agent.headers = {"x-contextrender-bypass-tools": "Skill, lo*"}
    request_body = agent.run(1)[0]
    assert agent.results(request_body[agent.key]) == agent.results(agent.items)[:9]
    assert agent.response.headers["x-contextrender-omitted"] == "0"
    assert "x-contextrender-tokens-after" not in agent.response.headers
    response = setup.post("/v1/compress", {"messages": agent.items, "model": "m"}, **agent.headers)
    assert (response.json()["messages"], response.json()["tokens_saved"]) == (agent.items, 0)
    agent.headers = {"x-contextrender-bypass-tools": "LOOK,ook"}
    request_body = agent.run(1)[-1]
    assert len(agent.results(request_body[agent.key])) < 9
    assert "x-contextrender-tokens-after" in agent.response.headers


def test_results_of_other_tools_are_omitted(start: Start) -> None:
    agent = ChatAgent(start(bypass_tools=frozenset({"Skill"}))).add_turns(10)
    rename(agent, 3)
    results = results_in_prompt(agent)
    assert results[:3] == [finding(number) for number in range(3)]
    assert len(results) < 8
