"""Tool costs over HTTP and in the terminal."""

import pytest
from contextrender_bridge.client import ContextRender
from contextrender_bridge.client.credentials import Credentials

from tests.support.command import printed
from tests.support.transcripts import assistant, step, user


def test_terminal_shows_tool_costs(
    credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXTRENDER_URL", credentials.url)
    monkeypatch.setenv("CONTEXTRENDER_TOKEN", credentials.token)
    messages = [
        user("Go."),
        *step("a", "look_here", "{}", "TOKEN_ALPHA " * 3_000),
        assistant("Seen."),
    ]
    with ContextRender(credentials.url, credentials.token) as client:
        client.fit("costs", messages[:1], model="gpt-5.1")
        client.fit("costs", messages[:-1], model="gpt-5.1")
        client.sync("costs", messages)
        (tool,) = client.inspect_session("costs")["tools"]
    assert tool["name"] == "look_here" and tool["results"] == 1
    assert tool["unused_tokens"] == tool["tokens"] == tool["largest"]
    assert tool["largest_turn"] == 1 and tool["dollars"]
    output = printed("tools", "costs")
    assert "look_here floods" in output and "$" in output
    assert "look_here" in printed("tools")
