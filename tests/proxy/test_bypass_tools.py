"""Results of tools that are never touched."""

import uuid
from typing import Any

import pytest

from tests.proxy.agents import ChatAgent, MessagesAgent, ResponsesAgent, finding
from tests.proxy.conftest import Setup, Start
from tests.support.scripted_model import chat, whole

TOOL_AGENTS = [ChatAgent, MessagesAgent, ResponsesAgent]


@pytest.mark.parametrize("kind", TOOL_AGENTS)
def test_all_results_of_the_named_tools_stay(setup: Setup, kind: Any) -> None:
    agent = kind(setup, uuid.uuid4().hex)
    agent.headers = {"x-contextrender-bypass-tools": "Skill, lo*"}
    sent = agent.run(10)[-1]
    assert agent.results(sent[agent.key]) == agent.results(agent.items)[:9]
    assert agent.got.headers["x-contextrender-omitted"] == "0"
    assert "x-contextrender-tokens-after" not in agent.got.headers
    agent.headers = {"x-contextrender-bypass-tools": "LOOK,ook"}
    sent = agent.run(1)[-1]
    assert len(agent.results(sent[agent.key])) < 9
    assert "x-contextrender-tokens-after" in agent.got.headers


def test_results_of_other_tools_leave(start: Start) -> None:
    setup = start(bypass_tools=frozenset({"Skill"}))
    agent = ChatAgent(setup)
    for number in range(10):
        agent.take(number, number)
    skills = [item for item in agent.items if item.get("tool_calls")][:3]
    for item in skills:
        item["tool_calls"][0]["function"]["name"] = "Skill"
    setup.model.script = [whole(chat("done"))]
    setup.post("/v1/chat/completions", {"model": "m", "messages": agent.items})
    shown = agent.results(setup.model.asked[-1].json["messages"])
    assert shown[:3] == [finding(number) for number in range(3)]
    assert len(shown) < 8


def test_gateways_get_them_whole(setup: Setup) -> None:
    agent = ChatAgent(setup)
    for number in range(10):
        agent.take(number, number)
    body = {"messages": agent.items, "model": "gpt-4o"}
    made = setup.post("/v1/compress", body, x_contextrender_bypass_tools="look").json()
    assert made["messages"] == agent.items
    assert made["tokens_saved"] == 0
    assert setup.post("/v1/compress", body).json()["tokens_saved"] > 0
