"""Tool costs over HTTP and in the terminal."""

from itertools import chain

import pytest
from contextrender_bridge.client import ContextRender
from contextrender_bridge.client.credentials import Credentials
from contextrender_bridge.runtime.session_lease import WORKING_SET

from tests.api.client import Api
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


def test_tools_of_sessions_are_added_up(api: Api) -> None:
    for session, texts in (("first", ["a b c"]), ("second", ["d", "e f"])):
        steps = [step(f"call {place}", "look", "{}", text) for place, text in enumerate(texts)]
        api("sync", session=session, messages=[user("Go."), *chain.from_iterable(steps)])
    first, second, newest, all_sessions = (
        api("tools", **fields)
        for fields in ({"session": "first"}, {"session": "second"}, {"limit": 1}, {})
    )
    assert newest == second and (first["sessions"], all_sessions["sessions"]) == (1, 2)
    assert all_sessions["tools"][0]["results"] == 3
    assert all_sessions["advice"] == ["No answer used a result of look: 18 tokens."]
    assert all_sessions["tools"][0]["tokens"] == sum(
        view["tools"][0]["tokens"] for view in (first, second)
    )
    assert all_sessions["tools"][0]["largest_session"] == "first"
    assert api("tools", session="first", branch=0) == first
    api.refused("tools", 404, "not_found", session="first", branch=1)
    api.refused("tools", 404, "not_found", session="other")
    api.refused("tools", 422, "invalid_request", limit=0)


def test_cache_counts_a_history_that_a_reading_request_loads(api: Api) -> None:
    api("sync", session="s", messages=[user("Go."), *step("a", "look", "{}", "word " * 9_000)])
    WORKING_SET.clear()
    api("explain", session="s")  # caches the session without a history
    before = WORKING_SET.nbytes
    api("tools", session="s")
    assert WORKING_SET.nbytes > before + 9_000
