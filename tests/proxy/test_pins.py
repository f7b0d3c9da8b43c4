"""Results that stay because the caller says so: tools by name, calls by id, in all dialects."""

import uuid
from typing import Any

import pytest

from tests.proxy.agents import ChatAgent, MessagesAgent, ResponsesAgent, finding
from tests.proxy.conftest import Setup, Start
from tests.support.scripted_model import chat, whole

TOOL_AGENTS = [(ChatAgent, "c"), (MessagesAgent, "t"), (ResponsesAgent, "k")]


@pytest.mark.parametrize("policy", ["contextrender", "contextrender_frozen"])
@pytest.mark.parametrize(("kind", "id"), TOOL_AGENTS)
def test_results_of_the_calls_named_stay(setup: Setup, kind: Any, id: str, policy: str) -> None:
    plain = kind(setup, uuid.uuid4().hex)
    plain.headers = {"x-contextrender-policy": policy}
    assert finding(1) not in plain.results(plain.run(10)[-1][plain.key])
    agent = kind(setup, uuid.uuid4().hex)
    agent.headers = {**plain.headers, "x-contextrender-keep": f"{id}1, none"}
    sent = agent.run(10)
    assert finding(1) in agent.results(sent[-1][agent.key])
    assert agent.got.headers["x-contextrender-kept"] == "1 complete"
    headers = agent.got.headers
    assert int(headers["x-contextrender-tokens-after"]) <= 600


def test_by_setting_and_by_session(start: Start) -> None:
    setup = start(keep_tools=frozenset({"Skill"}), budget=1200)
    agent = ChatAgent(setup, session := uuid.uuid4().hex)
    for number in range(10):
        agent.take(number, number)
    first = next(item for item in agent.items if item.get("tool_calls"))
    first["tool_calls"][0]["function"]["name"] = "Skill"
    body = {"model": "m", "messages": agent.items}

    def shown() -> list[str]:
        setup.model.script = [whole(chat("done"))]
        setup.post(f"/s/{session}/v1/chat/completions", body)
        return agent.results(setup.model.asked[-1].json["messages"])

    assert finding(0) in shown()
    setup.service.sync(session, agent.items, settings={"keep": ["c2"]})
    assert {finding(0), finding(2)} <= set(shown())


def test_pins_that_cannot_be_let_the_history_through(setup: Setup) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    for name, value in (("keep-tools", "a[b"), ("keep", "x" * 201), ("bypass-tools", "y" * 201)):
        setup.model.script = [whole(chat("done"))]
        named = {f"x-contextrender-{name}": value}
        got = setup.post("/v1/chat/completions", body, **named)
        assert got.headers["x-contextrender-fail-open"] == f"invalid_{name}"
        assert setup.model.asked[-1].json == body
        refused = setup.post("/v1/compress", body, **named)
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid_request")
