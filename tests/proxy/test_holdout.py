"""A share of the sessions is sent in full, for comparison."""

import uuid
from typing import Any

import pytest
from contextrender_bridge import ContextRender
from contextrender_bridge.cli.inspect.holdout import draw
from contextrender_bridge.proxy.request import is_held_out
from rich.console import Console

from tests.proxy.agents import ChatAgent, MessagesAgent
from tests.proxy.conftest import Setup, Start
from tests.server.servers import Server
from tests.support.scripted_model import ModelRequest, Reply, call, chat, json_reply
from tests.support.waiting import wait_until


def session_name(*, holdout: bool) -> str:
    return next(s for s in iter(lambda: uuid.uuid4().hex, "") if is_held_out(s, 0.1) == holdout)


def test_holdout_sessions_are_sent_in_full_and_recorded(start: Start) -> None:
    setup = start(holdout=0.1)
    agent = MessagesAgent(setup, session := session_name(holdout=True)).add_turns(9)
    assert agent.results(agent.run(1)[0][agent.key]) == agent.results(agent.items)[:9]
    assert agent.response.headers["x-contextrender-full-history"] == "holdout"
    assert setup.service.inspect_session(session)["session"]["results"] == 9
    other = MessagesAgent(setup, session_name(holdout=False)).add_turns(9)
    assert len(other.results(other.run(1)[0][other.key])) < 9
    assert "x-contextrender-full-history" not in other.response.headers


def test_holdout_has_the_configured_share() -> None:
    names = [f"session {number}" for number in range(4000)]
    names_in_holdout = {name for name in names if is_held_out(name, 0.1)}
    assert 300 < len(names_in_holdout) < 500
    assert names_in_holdout < {name for name in names if is_held_out(name, 0.3)}
    assert not any(is_held_out(name, 0.0) for name in names)


def test_compress_returns_holdout_in_full(start: Start) -> None:
    setup = start(holdout=0.1)
    agent = ChatAgent(setup).add_turns(10)
    body = {"messages": agent.items, "model": "gpt-4o"}
    response = setup.post(
        "/v1/compress", body, x_contextrender_session=session_name(holdout=True)
    ).json()
    assert (response["messages"], response["tokens_saved"]) == (agent.items, 0)
    response = setup.post(
        "/v1/compress", body, x_contextrender_session=session_name(holdout=False)
    ).json()
    assert response["tokens_saved"] > 0


def answer_with_usage(request: ModelRequest) -> Reply:
    """Return usage of one token per four bytes, half of them cached."""
    size, results = len(request.body) // 4, request.body.count(b'"tool_call_id"')
    reply = chat(None, [call(f"c{results}", "look", at=f"host_{results}_X")])
    counts = {"prompt_tokens": size, "completion_tokens": 7, "total_tokens": size + 7}
    details = {"prompt_tokens_details": {"cached_tokens": size // 2}}
    return json_reply(reply | {"usage": counts | details})


def run(setup: Setup, token: str, session: str, turns: int) -> None:
    agent = ChatAgent(setup).add_turns(7)
    agent.headers = {"x-contextrender-token": token, "x-contextrender-session": session}
    for _ in range(turns):
        assert agent.add_turns(1).post().status_code == 200


def comparison(user: ContextRender, groups: tuple[int, int]) -> Any:
    """Return the report once equally many calls of both groups are recorded.

    The usage of a session's last call is recorded after a pause.
    """

    def complete_report() -> Any:
        reply = user.call("holdout_report", {})
        calls = next(row for row in reply["measures"] if row["measure"] == "calls")
        all_of_them = (reply["rendered"], reply["holdout"]) == groups
        return reply if all_of_them and calls["rendered"] == calls["holdout"] else None

    return wait_until(complete_report)


@pytest.mark.slow
def test_holdout_report_compares_usage(start: Start, shared_server: Server) -> None:
    setup = start(holdout=0.1)
    setup.model.answer = answer_with_usage
    token = shared_server.add_user(f"held-{uuid.uuid4().hex[:8]}")
    with ContextRender(shared_server.url, token) as user:
        assert user.call("holdout_report", {})["summary"].startswith(
            "Too little to compare: 0 rendered"
        )
        run(setup, token, session_name(holdout=True), 3)
        run(setup, token, session_name(holdout=False), 3)
        report = comparison(user, (1, 1))
        assert "1 rendered and 1 held-out" in report["summary"]
        assert report["measures"][0]["ratio"] is None
        for _ in range(19):
            run(setup, token, session_name(holdout=True), 3)
            run(setup, token, session_name(holdout=False), 3)
        report = comparison(user, (20, 20))
    rows = {row["measure"]: row for row in report["measures"]}
    assert rows["prompt"]["low"] <= rows["prompt"]["ratio"] <= rows["prompt"]["high"] < 0.8
    assert rows["output"]["ratio"] == rows["calls"]["ratio"] == 1
    assert rows["cached"]["holdout"] == pytest.approx(rows["prompt"]["holdout"] / 2, rel=0.01)
    assert rows["prompt"]["holdout"] > 0
    console = Console(width=100, file=None, record=True)
    console.print(draw(report))
    assert "full (20)" in console.export_text()
