"""The usage that providers report is stored with the calls."""

import asyncio
import json
import uuid
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from contextrender_bridge import ContextRender, load_credentials
from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.usage_reading import read_error_code
from contextrender_bridge.base.wire import Json
from contextrender_bridge.cli.inspect.show_call import provider_line
from contextrender_bridge.client.fitting import RenderedRequest
from contextrender_bridge.engine.call.provider_usage import ProviderUsage
from contextrender_bridge.proxy.histories import Conversation, ProxiedCall
from contextrender_bridge.proxy.refusals import failure_code
from contextrender_bridge.proxy.request import Controls, client_of
from contextrender_bridge.proxy.usage_reporting import UsageNotes

from tests.proxy.agents import AGENTS, EACH_WAY, Agent, TextAgent
from tests.proxy.conftest import Setup
from tests.server.servers import running_server
from tests.support.scripted_model import Model, chat, chat_events, json_reply, serving, stream
from tests.support.transcripts import assistant, user
from tests.support.waiting import wait_until


def recorded_calls(setup: Setup, session: str) -> list[Json]:
    view = setup.service.call("timeline", {"session": session})
    return [turn for turn in view["turns"] if turn["recorded"]]


@pytest.mark.parametrize(("kind", "streams"), EACH_WAY)
def test_usage_is_recorded(setup: Setup, kind: type[Agent], streams: bool) -> None:
    session = uuid.uuid4().hex
    kind(setup, session, streams=streams).run(6)
    calls = recorded_calls(setup, session)[:-1]
    assert len(calls) >= 4
    assert {turn["delivery"] for turn in calls} == {"rendered"}
    assert all(turn["usage"] and turn["usage"]["uncached"] > 0 for turn in calls[:-1])


@pytest.mark.parametrize("kind", [kind for kind in AGENTS if kind is not TextAgent])
def test_tokens_of_tool_declarations_are_recorded(setup: Setup, kind: type[Agent]) -> None:
    session = uuid.uuid4().hex
    agent = kind(setup, session)
    agent.extra["tools"] = [declaration(kind.key, kind.path, name) for name in ("look", "fly")]
    agent.run(3)
    tools = setup.service.inspect_session(session)["tools"]
    counts = {tool["name"]: (tool["results"], tool["declared"]) for tool in tools}
    assert counts["fly"] == (0, counts["look"][1])
    assert counts["look"][0] == 2
    assert 25 < counts["look"][1] < 60
    agent.extra["tools"].pop()
    agent.run(2)
    assert {tool["name"] for tool in setup.service.inspect_session(session)["tools"]} == {"look"}


def declaration(key: str, path: str, name: str) -> dict[str, Any]:
    """Return a tool's declaration in an API's format."""
    schema = {"type": "object", "properties": {"host": {"type": "string"}}}
    tool = {"name": name, "description": "Look at a host, or fly to it."}
    if "messages" in path:
        return {**tool, "input_schema": schema}
    function = {**tool, "parameters": schema}
    flat = key == "input"
    return {"type": "function", **function} if flat else {"type": "function", "function": function}


def test_times_and_error_of_reply_are_recorded(setup: Setup) -> None:
    """The first reply is late and the second one is a refusal, whose text is not stored."""
    session = uuid.uuid4().hex
    late = json_reply(chat("Done."))
    late.late, late.pause = True, 0.25
    message = f"No more, {uuid.uuid4().hex}."
    refusal = {"error": {"message": message, "type": "requests", "code": "rate_limit_exceeded"}}
    setup.model.script = [late, json_reply(refusal, 429), json_reply(chat("Later."))]
    task = user("Go.")
    messages = [task, assistant("Done."), task]
    send_chat(setup, session, messages[:1])
    assert send_chat(setup, session, messages) == 429
    success, failure = (
        call_with_status(setup, session, number, status) for number, status in ((0, 200), (1, 429))
    )
    # The proxy reads a short reply whole before it sends the first byte on.
    assert 250 <= success["first_byte_ms"] <= success["reply_ms"] < 120_000
    assert (success["error"], failure["error"]) == ("", "rate_limit_exceeded")
    assert message not in str(setup.service.call("export_session", {"session": session}))
    assert send_chat(setup, session, messages) == 200
    next_call = call_with_status(setup, session, 1, 200)
    assert (next_call["error"], next_call["usage"]["output"]) == ("", 4)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"error": {"message": "No.", "type": "requests", "code": null}}', "requests"),
        (b'{"type": "error", "error": {"type": "overloaded_error"}}', "overloaded_error"),
        (b'{"error": {"code": 400, "status": "INVALID_ARGUMENT"}}', "INVALID_ARGUMENT"),
        (b'{"error": {"code": "a text with words", "message": "secret"}}', ""),
        (b'{"error": "a text"}', ""),
        (b"<html>", ""),
        (b"[1]", ""),
    ],
)
def test_error_code_is_read_without_text(body: bytes, code: str) -> None:
    assert read_error_code(body) == code


CHUNK = {"choices": [{"delta": {"content": "On it."}}]}
CREATED = {"type": "response.created", "response": {"error": None}}
SERVER_ERROR = {"code": "server_error", "message": "secret"}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "secret"}}


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ([CHUNK, {"error": {"code": "busy", "message": "secret"}}, "[DONE]"], "busy"),
        ([CHUNK, {"choices": [{"delta": {}, "finish_reason": "error"}]}, "[DONE]"], "error"),
        ([CHUNK, {"choices": [{"error": {"code": 502}, "delta": {"content": ""}}]}], "error"),
        ([{"type": "message_start"}, OVERLOADED], "overloaded_error"),
        (
            [CREATED, {"type": "response.failed", "response": {"error": SERVER_ERROR}}],
            "server_error",
        ),
        ([CREATED, {"type": "error", **SERVER_ERROR}], "server_error"),
        ([CHUNK, {"base_resp": {"status_code": 1002}}], "error"),
        ([CHUNK, {"base_resp": {"status_code": 0}}, "[DONE]"], ""),
        ([CREATED, {"type": "response.completed", "response": {"error": None}}], ""),
        ([{"choices": [{"delta": {"content": '{"error": 1}'}}]}, "[DONE]"], ""),
        ({"status": "failed", "error": SERVER_ERROR}, "server_error"),
        ({"error": "a text"}, "error"),
        (chat('{"error": "a text"}'), ""),
    ],
)
def test_failure_in_accepted_reply_is_found(reply: Any, code: str) -> None:
    is_stream = isinstance(reply, list)
    body = stream(reply).body if is_stream else json.dumps(reply).encode()
    assert failure_code(body, is_stream=is_stream) == code


def test_failure_in_accepted_reply_is_recorded(setup: Setup) -> None:
    failure, broken = (stream(chat_events("Not yet.")[:3]) for _ in range(2))
    failure.chunks += stream([{"error": {"code": "busy", "message": "secret"}}]).chunks
    broken.breaks = True
    task, answer = user("Go."), assistant("Well.")
    for reply, code in ((failure, "busy"), (broken, "broken_off")):
        session, setup.model.script = uuid.uuid4().hex, [json_reply(chat("Well.")), reply]
        assert send_chat(setup, session, [task]) == 200
        with suppress(httpx.RemoteProtocolError):
            send_chat(setup, session, [task, answer, task])
        assert call_with_status(setup, session, 1, 200)["error"] == code
        assert "secret" not in str(setup.service.call("export_session", {"session": session}))


def test_error_with_text_is_refused() -> None:
    assert ProviderUsage.of({"messages": 1, "status": 500, "error": "busy"}).reply.error == "busy"
    with pytest.raises(InvalidRequest, match="code"):
        ProviderUsage.of({"messages": 1, "error": "Your text is wrong."})


def test_terminal_prints_what_provider_reported() -> None:
    usage = {"uncached": 900, "cache_read": 100, "output": 50}
    price = {"uncached": 0.001, "output": 0.002}
    price |= dict.fromkeys(("cache_read", "cache_write", "cache_write_1h"), 0.0)
    times = {"first_byte_ms": 1200, "reply_ms": 3400, "status": 200, "error": ""}
    assert provider_line({"model": "m", "usage": usage, **times}, price) == (
        "provider: m 1,000 prompt tokens (100 from the cache), 50 of output; $1.0000; "
        "first byte after 1.2 s, whole answer after 3.4 s"
    )
    refusal = {**times, "reply_ms": 0, "status": 429, "error": "rate_limit_exceeded"}
    line = provider_line({"model": "m", "usage": None, **refusal}, None)
    assert line == "provider: m failed with 429 rate_limit_exceeded"
    failure = {**times, "reply_ms": 0, "error": "overloaded_error"}
    line = provider_line({"model": "m", "usage": None, **failure}, None)
    assert line == "provider: m the reply ended with the error overloaded_error"
    without_status = {**refusal, "status": 0, "error": ""}
    assert provider_line({"model": "m", "usage": None, **without_status}, None) == ""


def send_chat(setup: Setup, session: str, messages: list[Json]) -> int:
    """Send a chat request of a session, and return the reply's status."""
    body = {"model": "m", "messages": messages}
    headers = {"x-contextrender-session": session}
    return setup.post("/v1/chat/completions", body, **headers).status_code


def call_with_status(setup: Setup, session: str, number: int, status: int) -> Json:
    """Return a session's recorded call once its reply's status is reported."""

    def reported_call() -> Json | None:
        (call,) = recorded_calls(setup, session)[number : number + 1] or [{"status": 0}]
        return call if call["status"] == status else None

    call = wait_until(reported_call, explain=lambda: recorded_calls(setup, session))
    assert call is not None
    return call


def test_observed_call_is_recorded_as_full(setup: Setup) -> None:
    session = uuid.uuid4().hex
    agent = AGENTS[0](setup, session)
    agent.headers["x-contextrender-mode"] = "observe"
    agent.run(4)
    assert {turn["delivery"] for turn in recorded_calls(setup, session)} == {"full"}


@pytest.mark.anyio
async def test_usage_is_reported_after_its_call_is_recorded() -> None:
    """The recording may take an hour by the clock of the event loop, which the test sets."""
    reports: list[Json] = []

    async def call(name: str, fields: Json, token: str | None) -> None:
        reports.append(fields["usage"])

    loop, is_recorded = asyncio.get_running_loop(), asyncio.Event()
    recording_task: Any = asyncio.ensure_future(is_recorded.wait())
    controls = Controls(mode="render", budget=None, policy=None, token=None)
    fit = RenderedRequest({"model": "m"})
    call_of_session = ProxiedCall("s", fit, Conversation(), controls, recording_task, messages=3)
    client: Any = SimpleNamespace(call=call)
    UsageNotes(client).add(call_of_session, None, "rendered")
    clock = loop.time
    for hours in (1, 2):
        loop.time = lambda hours=hours: clock() + 3600 * hours  # type: ignore[method-assign,misc]
        for _ in range(9):
            await asyncio.sleep(0)
    assert not reports
    is_recorded.set()
    while not reports:
        await asyncio.sleep(0)
    assert [usage["messages"] for usage in reports] == [3]


@pytest.mark.slow
def test_usage_of_last_call_is_recorded_when_service_stops(tmp_path: Path) -> None:
    session, data = uuid.uuid4().hex, tmp_path / "data"
    model = Model()
    with serving(model, lifespan="off") as url:
        with running_server(data, CONTEXTRENDER_UPSTREAM=url) as server:
            credentials = load_credentials(data)
            usage = {"prompt_tokens": 777, "completion_tokens": 3}
            model.script = [json_reply({**chat("Done."), "usage": usage})]
            headers = {
                "x-contextrender-token": credentials.token,
                "x-contextrender-session": session,
            }
            body: Any = {"model": "m", "messages": [user("Go.")]}
            response = httpx.post(
                f"{credentials.url}/v1/chat/completions", json=body, headers=headers
            )
            assert response.status_code == 200
            server.stop()
        with running_server(data):
            credentials = load_credentials(data)
            with ContextRender(credentials.url, credentials.token) as client:
                message = assistant("Done.")
                client.sync(session, [*body["messages"], message])
                turn = client.call("timeline", {"session": session})["turns"]
    assert sum(turn[0]["usage"].values()) == 780


def test_client_name_comes_from_user_agent() -> None:
    assert client_of({"user-agent": "claude-cli/2.0 (external)"}) == "claude-cli"
    assert client_of({}) == ""
