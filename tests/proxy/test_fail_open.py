"""If the service is down, late or wrong, the proxy forwards model calls unchanged."""

import json
import logging

import httpx
import pytest

from tests.proxy.agents import ChatAgent
from tests.proxy.conftest import Setup, Start
from tests.support.scripted_model import (
    Model,
    Reply,
    answer_chat,
    chat,
    chat_events,
    json_reply,
    serving,
    stream,
)

SECRET = "hunter2-in-the-history"
BODY = {"model": "m", "messages": [{"role": "user", "content": f"{SECRET} {'hello ' * 200}"}]}
RAW = json.dumps(BODY, indent=2).encode()


def wrong_service(reply: Reply) -> Model:
    """Return a double of a service that always gives this reply."""
    model = Model()
    model.answer = lambda _: reply
    return model


def test_history_with_too_many_messages_is_forwarded_unchanged(setup: Setup) -> None:
    messages = [{"role": "user", "content": f"{number}"} for number in range(20_001)]
    body = {"model": "m", "messages": messages}
    response = setup.post("/v1/chat/completions", body, **{"x-contextrender-budget": "600"})
    assert response.headers["x-contextrender-fail-open"] == "too_many_messages"
    assert setup.model.requests[-1].json == body


def check_forwarded_unchanged(setup: Setup, reason: str, **headers: str) -> None:
    kind = {"content-type": "application/json", **headers}
    response = setup.http.post("/v1/chat/completions", content=RAW, headers=kind)
    assert response.json() == chat("hello")
    assert response.headers["x-contextrender-fail-open"] == reason
    assert setup.model.requests[-1].body == RAW


def test_call_is_forwarded_when_service_is_down(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    setup = start(url="http://127.0.0.1:9", token="t")
    with caplog.at_level(logging.WARNING, "contextrender"):
        check_forwarded_unchanged(setup, "unreachable")
    status = setup.http.get("/contextrender/status").json()
    assert status == {"status": "ok", "fail_open": {"unreachable": 1}}
    records = [record for record in caplog.records if record.name == "contextrender"]
    assert [record.getMessage() for record in records] == ["history sent unchanged (unreachable)"]
    assert SECRET not in caplog.text


def test_call_is_forwarded_when_service_is_late(start: Start) -> None:
    slow = wrong_service(Reply([b"{}"], pause=60, late=True))
    with serving(slow, lifespan="off") as url:
        setup = start(url=url, token="t", render_timeout=0.3)
        check_forwarded_unchanged(setup, "late")
        check_forwarded_unchanged(setup, "late")
        assert len(slow.requests) == 2


def test_proxy_pauses_calls_to_a_failing_service(start: Start) -> None:
    setup = start(url="http://127.0.0.1:9", token="t")
    for number in range(1, 5):
        response = setup.post("/v1/chat/completions", BODY)
        assert response.headers["x-contextrender-fail-open-count"] == f"{number} of {number}"
    assert response.headers["x-contextrender-fail-open"] == "paused"


def test_silent_provider_times_out(start: Start) -> None:
    setup = start(provider_timeout=0.5)
    silent = stream(chat_events("hello"), pause=60)
    for reply in (silent, Reply([b"{}"], pause=60, late=True)):
        setup.model.script = [reply]
        response = setup.post("/v1/chat/completions", {**BODY, "stream": reply is silent})
        assert (response.status_code, response.json()["error"]["code"]) == (504, "upstream_timeout")
    spoken = stream(chat_events("hello"))
    spoken.may_end = lambda: False
    setup.model.script = [spoken]
    with pytest.raises(httpx.RemoteProtocolError):
        setup.post("/v1/chat/completions", {**BODY, "stream": True})


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b"<html>", "unexpected_reply"),
        (200, b'{"reports": [{"digest": "d"}]}', "KeyError"),
        (500, b'{"error": {"code": "internal", "message": "x"}}', "internal"),
        (401, b'{"error": {"code": "unauthorized", "message": "x"}}', "unauthorized"),
    ],
)
def test_call_is_forwarded_when_service_reply_is_invalid(
    start: Start, status: int, body: bytes, reason: str
) -> None:
    with serving(wrong_service(Reply([body], status)), lifespan="off") as url:
        check_forwarded_unchanged(start(url=url, token="t"), reason)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("budget", "-600", "invalid_budget"),
        ("budget", "9" * 5000, "invalid_budget"),
        ("mode", "x", "invalid_mode"),
        ("policy", "nonsense", "invalid_policy"),
        ("token", "not-good", "unauthorized"),
    ],
)
def test_call_is_forwarded_with_invalid_controls(
    setup: Setup, name: str, value: str, reason: str
) -> None:
    check_forwarded_unchanged(setup, reason, **{f"x-contextrender-{name}": value})


def test_call_without_required_token_is_forwarded(start: Start) -> None:
    check_forwarded_unchanged(start(own_token=False), "token_missing")


@pytest.mark.parametrize("streams", [False, True])
def test_refused_prompt_is_resent_in_full(start: Start, streams: bool) -> None:
    setup = start()
    agent = ChatAgent(setup, f"refused-{streams}", streams=streams).add_turns(6)
    refusal = json_reply({"error": {"message": "not in that place"}}, 400)
    answer = answer_chat(streams, "hello")
    setup.model.script = [refusal, answer]
    response = agent.post()
    assert (response.status_code, response.content) == (200, answer.body)
    short_prompt, full_prompt = (request.json for request in setup.model.requests[-2:])
    assert len(short_prompt["messages"]) < len(full_prompt["messages"])
    assert full_prompt == agent.body
    assert response.headers["x-contextrender-fail-open"] == "refused"
    assert response.headers["x-contextrender-session"] == f"refused-{streams}"
    assert setup.proxy.histories.failures.counts() == {"refused": 1}


def test_refusal_is_remembered(start: Start) -> None:
    setup = start()
    agent = ChatAgent(setup, "refused-once").add_turns(6)
    refusal = json_reply({"error": {"message": "not in that place"}}, 400)

    def ask(*replies: Reply) -> list[bool]:
        """Return for each request whether it had the full history."""
        setup.model.requests.clear()
        setup.model.script = list(replies)
        agent.post()
        return [request.json["messages"] == agent.items for request in setup.model.requests]

    assert ask(refusal, json_reply(chat("hello"))) == [False, True]
    assert ask(json_reply(chat("hello"))) == [True]
    # The full history is too long now: the rendered prompt is sent, and first from then on.
    assert ask(refusal, json_reply(chat("hello"))) == [True, False]
    assert ask(json_reply(chat("hello"))) == [False]
    # If both fail, nothing is remembered.
    assert ask(refusal, refusal) == [False, True]
    assert ask(json_reply(chat("hello"))) == [False]
