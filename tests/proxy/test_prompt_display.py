"""The prompt that the service reports for a call is the prompt that the provider received."""

import json
import uuid

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects import DIALECTS

from tests.proxy.agents import Agent, ChatAgent, MessagesAgent, ResponsesAgent
from tests.proxy.conftest import Setup

CALLS = 67
"""In each of three request formats, so that they are more than 200."""


@pytest.mark.parametrize(
    ("dialect", "kind"),
    [("chat", ChatAgent), ("messages", MessagesAgent), ("responses", ResponsesAgent)],
)
def test_reported_prompt_is_what_the_provider_received(
    setup: Setup, dialect: str, kind: type[Agent]
) -> None:
    """Compare the messages as the format's reader finds them, and the results as the agent does."""
    session = uuid.uuid4().hex
    agent = kind(setup, session)
    calls_with_omissions = 0
    for turn, body in enumerate(agent.run(CALLS, {20: 1, 40: 3, 41: 12}), 1):
        fields = {"session": session, "turn": turn, "rows": 0, "window": 0, "prompt": True}
        prompt = setup.service.call("get_call", fields)["prompt"]
        assert encode(prompt) == encode(DIALECTS[dialect].read(body).messages)
        results = [message["content"] for message in prompt if message["role"] == "tool"]
        assert results == agent.results(body[agent.key])
        calls_with_omissions += len(results) < turn - 1
    assert calls_with_omissions > CALLS // 2


def encode(messages: list[Json]) -> bytes:
    return json.dumps(messages, sort_keys=True).encode()
