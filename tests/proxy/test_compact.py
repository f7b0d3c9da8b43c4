"""`POST /v1/compact` returns the text that replaces a history, for agents' plugins."""

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
    response = setup.post("/v1/compact", body)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("kind", [ChatAgent, MessagesAgent])
def test_history_becomes_one_text(setup: Setup, kind: Any) -> None:
    name = uuid.uuid4().hex
    reply = compact(setup, kind(setup).add_turns(9).items, name)
    assert (reply["session"], reply["results"], reply["complete"]) == (name, 9, 9)
    assert TASK in reply["text"]
    assert all(finding(number) in reply["text"] for number in range(9))
    assert reply["tokens"] <= DEFAULT_TOKENS
    assert setup.model.requests == []


@pytest.mark.parametrize("wrap", ["{}", "Summary of the conversation:\n<summary>\n{}\n</summary>"])
def test_next_compaction_continues_the_session(setup: Setup, wrap: str) -> None:
    name = uuid.uuid4().hex
    first = compact(setup, ChatAgent(setup).add_turns(9).items, name)
    system = {"role": "system", "content": "Its own prompt."}
    later = [system, user(wrap.format(first["text"])), assistant("I see."), user("Go on.")]
    second = compact(setup, later, name)
    assert second["results"] == 9
    assert second["branch"] == first["branch"]
    assert second["offset"] >= first["offset"] + 2
    assert second["text"].count("[ContextRender compaction: ") == 1
    assert all(finding(number) in second["text"] for number in range(9))
    assert "Go on." in second["text"]


def test_text_of_another_session_is_a_user_message(setup: Setup) -> None:
    first = compact(setup, ChatAgent(setup).add_turns(9).items, uuid.uuid4().hex)
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
def test_invalid_request_is_refused(setup: Setup, change: Json, status: int, code: str) -> None:
    body = {"messages": [user("Hello.")], "session": "s", **change}
    response = setup.post("/v1/compact", body)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code), response.text


def test_compact_needs_post_and_token(start: Start) -> None:
    setup = start(own_token=False)
    assert setup.http.get("/v1/compact").status_code == 405
    response = setup.http.post("/v1/compact", json={"messages": [user("Hello.")]})
    assert response.json()["error"]["code"] == "unauthorized"


def test_compact_fails_when_service_is_down(start: Start) -> None:
    setup = start(url="http://127.0.0.1:9", token="t")
    response = setup.post("/v1/compact", {"messages": [user("Hello.")], "session": "s"})
    assert (response.status_code, response.json()["error"]["code"]) == (503, "unreachable")
