"""The prompt that the service reports for a call is the prompt that the provider received."""

import json
import uuid

import pytest
from contextrender_bridge.dialects import DIALECTS

from tests.proxy import agents
from tests.proxy.agents import FILLER, Agent, ChatAgent, MessagesAgent, ResponsesAgent, finding
from tests.proxy.conftest import Setup

CALLS = 67
"""In each of three request formats, so that they are more than 200."""


@pytest.mark.parametrize(
    ("dialect", "kind"),
    [("chat", ChatAgent), ("messages", MessagesAgent), ("responses", ResponsesAgent)],
)
def test_reported_prompt_is_what_the_provider_received(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, dialect: str, kind: type[Agent]
) -> None:
    """Compare the messages as the format's reader finds them, and the results as the agent does.

    Each seventh result exceeds the budget, so that calls show an excerpt of it.
    """
    large = FILLER * 5
    monkeypatch.setattr(agents, "finding", lambda n: finding(n) + large * (n % 7 == 3))
    session = uuid.uuid4().hex
    agent = kind(setup, session)
    calls_with_omissions = calls_with_excerpts = 0
    for turn, body in enumerate(agent.run(CALLS, {20: 1, 40: 3, 41: 12}), 1):
        fields = {"session": session, "turn": turn, "rows": 0, "window": 0, "prompt": True}
        prompt = setup.service.call("get_call", fields)["prompt"]
        received = DIALECTS[dialect].read(body).messages
        reported_text, received_text = (
            json.dumps(messages, sort_keys=True) for messages in (prompt, received)
        )
        assert reported_text == received_text
        results = [message["content"] for message in prompt if message["role"] == "tool"]
        assert results == agent.results(body[agent.key])
        calls_with_omissions += len(results) < turn - 1
        calls_with_excerpts += any("call its tool again for all of it" in text for text in results)
    assert calls_with_omissions > CALLS // 2 and calls_with_excerpts > 5
