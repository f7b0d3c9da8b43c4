"""`POST /v1/compact`: the text that replaces a history, for the plugins of agents."""

import uuid
from typing import Any

import pytest
from contextrender_bridge.base.compaction_size import DEFAULT_TOKENS
from contextrender_bridge.base.wire import Json

from tests.proxy.agents import TASK, ChatAgent, MessagesAgent, finding
from tests.proxy.conftest import Setup, Start
from tests.support.transcripts import assistant, user


def compact(setup: Setup, messages: Any, session: str, **fields: Any) -> Any:
    body = {"messages": messages, "session": session, "model": "gpt-4o", **fields}
    got = setup.post("/v1/compact", body)
    assert got.status_code == 200, got.text
    return got.json()


@pytest.mark.parametrize("kind", [ChatAgent, MessagesAgent])
def test_a_history_becomes_one_text(setup: Setup, kind: Any) -> None:
    name = uuid.uuid4().hex
    reply = compact(setup, kind(setup).grown(9).items, name)
    assert (reply["session"], reply["results"], reply["complete"]) == (name, 9, 9)
    assert TASK in reply["text"]
    assert all(finding(number) in reply["text"] for number in range(9))
    assert reply["tokens"] <= DEFAULT_TOKENS
    assert setup.model.asked == []


@pytest.mark.parametrize("wrap", ["{}", "Summary of the conversation:\n<summary>\n{}\n</summary>"])
def test_the_next_one_continues_the_session(setup: Setup, wrap: str) -> None:
    name = uuid.uuid4().hex
    first = compact(setup, ChatAgent(setup).grown(9).items, name)
    system = {"role": "system", "content": "Its own prompt."}
    later = [system, user(wrap.format(first["text"])), assistant("I see."), user("Go on.")]
    second = compact(setup, later, name)
    assert second["results"] == 9
    assert second["branch"] == first["branch"]
    assert second["offset"] >= first["offset"] + 2
    assert second["text"].count("[ContextRender compaction: ") == 1
    assert all(finding(number) in second["text"] for number in range(9))
    assert "Go on." in second["text"]


def test_a_text_of_another_session_is_what_the_user_said(setup: Setup) -> None:
    first = compact(setup, ChatAgent(setup).grown(9).items, uuid.uuid4().hex)
    other = compact(setup, [user(first["text"]), user("Go on.")], uuid.uuid4().hex)
    assert other["results"] == 0
    assert finding(3) in other["text"]


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"messages": 3}, 422, "invalid_request"),
        ({"messages": [3]}, 422, "invalid_request"),
        ({"messages": []}, 422, "invalid_request"),
        ({"tokens": 3}, 422, "invalid_request"),
        ({"tokens": "many"}, 422, "invalid_request"),
        ({"summary": 3}, 422, "invalid_request"),
        ({"window": -3}, 422, "invalid_request"),
    ],
)
def test_a_bad_request_is_refused(setup: Setup, change: Json, status: int, code: str) -> None:
    body = {"messages": [user("Hello.")], "session": "s", **change}
    got = setup.post("/v1/compact", body)
    assert (got.status_code, got.json()["error"]["code"]) == (status, code), got.text


def test_it_is_a_post_with_a_token(start: Start) -> None:
    setup = start(own_token=False)
    assert setup.http.get("/v1/compact").status_code == 405
    got = setup.http.post("/v1/compact", json={"messages": [user("Hello.")]})
    assert got.json()["error"]["code"] == "unauthorized"


def test_a_service_that_is_down_is_an_error(start: Start) -> None:
    setup = start(url="http://127.0.0.1:9", token="t")
    got = setup.post("/v1/compact", {"messages": [user("Hello.")], "session": "s"})
    assert (got.status_code, got.json()["error"]["code"]) == (503, "unreachable")
