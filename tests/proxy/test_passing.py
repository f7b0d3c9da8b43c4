"""The proxy forwards requests and replies unchanged."""

import asyncio
import gzip
import json
from http.client import HTTPConnection
from urllib.parse import urlsplit

import httpx
import pytest
from contextrender_bridge.base.wire import Json

from tests.proxy.conftest import Setup, Start
from tests.support.scripted_model import (
    Reply,
    answer_chat,
    answer_messages,
    answer_responses,
    call,
    chat,
    chat_events,
    json_reply,
    slow_body,
    stream,
)
from tests.support.waiting import wait_until

HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
MESSAGES_BODY = {**HELLO, "max_tokens": 9}
RESPONSES_BODY = {"model": "m", "input": "hello"}
LARGE = 30 * 2**20
BLOCKS: list[Json] = [
    {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
    {"type": "text", "text": "Hello there."},
    {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "host_A1"}},
]
CALL = {"id": "fc_1", "call_id": "c1", "name": "look", "arguments": '{"at": "host_A1"}'}
ITEMS: list[Json] = [
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", **CALL},
]
STREAMS = [
    ("/v1/chat/completions", HELLO, answer_chat(True, "", [call("c1", "look", at="host_A1")])),
    ("/v1/chat/completions", HELLO, answer_chat(True, "Hello, there you are.")),
    ("/v1/messages?beta=true", MESSAGES_BODY, answer_messages(True, BLOCKS, "tool_use")),
    ("/v1/responses", RESPONSES_BODY, answer_responses(True, ITEMS)),
]


@pytest.mark.parametrize(("path", "body", "reply"), STREAMS)
def test_streams_are_forwarded_byte_for_byte(
    setup: Setup, path: str, body: dict[str, object], reply: Reply
) -> None:
    setup.model.script = [reply]
    raw = json.dumps({**body, "stream": True}, indent=1).encode()
    kind = {"content-type": "application/json", "authorization": "Bearer sk-1"}
    response = setup.http.post(path, content=raw, headers=kind)
    assert response.content == reply.body
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["x-contextrender-session"].startswith("auto-")
    assert "x-contextrender-fail-open" not in response.headers
    assert setup.model.requests[0].body == raw
    assert setup.model.requests[0].path == path
    assert setup.model.requests[0].header("authorization") == "Bearer sk-1"


def test_errors_are_forwarded(setup: Setup) -> None:
    status = 429
    error = {"error": {"message": "no", "type": "x"}}
    limits = {"retry_after": "7", "x_ratelimit_remaining_requests": "0", "x_request_id": "r1"}
    setup.model.script = [json_reply(error, status, **limits)]
    response = setup.post("/v1/chat/completions", HELLO)
    assert (response.status_code, response.content) == (status, json.dumps(error).encode())
    assert response.headers["retry-after"] == "7"
    assert response.headers["x-ratelimit-remaining-requests"] == "0"
    assert response.headers["x-request-id"] == "r1"
    assert "server" not in response.headers


def test_compressed_replies_stay_compressed(setup: Setup) -> None:
    content = gzip.compress(json.dumps(chat("hello")).encode())
    headers = [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")]
    setup.model.script = [Reply([content], 200, headers)]
    fields = {"accept-encoding": "gzip, deflate"}
    with setup.http.stream("POST", "/v1/chat/completions", json=HELLO, headers=fields) as response:
        assert b"".join(response.iter_raw()) == content
    assert setup.model.requests[0].header("accept-encoding") == "gzip, deflate"


def test_hop_by_hop_and_own_headers_are_not_forwarded(setup: Setup) -> None:
    cookies = [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2"), (b"connection", b"x-hop")]
    reply = json_reply(chat("hello"))
    setup.model.script = [Reply(reply.chunks, 200, [*reply.headers, *cookies, (b"x-hop", b"1")])]
    hop = {"connection": "keep-alive, x-once", "x_once": "1"}
    own_headers = {"x_contextrender_budget": "500", "x_contextrender_session": "s"}
    response = setup.post("/v1/chat/completions", HELLO, x_session_id="mine", **hop, **own_headers)
    assert response.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert "x-hop" not in response.headers
    names = {name for name, _ in setup.model.requests[0].headers}
    assert b"x-session-id" in names
    assert b"x-once" not in names
    assert not any(name.startswith(b"x-contextrender") for name in names)
    setup.model.script = [reply]
    httpx.post(f"{setup.url}/v1/chat/completions", json=HELLO)
    assert setup.model.requests[1].header("cookie") is None


def test_other_paths_are_forwarded(setup: Setup) -> None:
    setup.model.answer = lambda request: json_reply(
        {"path": request.path, "method": request.method}
    )
    models = "/v1/models?limit=2"
    assert setup.http.get(models).json() == {"path": models, "method": "GET"}
    assert setup.http.delete("/s/a/v1/files/f%2F1").json()["path"] == "/v1/files/f%2F1"
    assert setup.post("/v1/embeddings", {"input": "x"}).json()["path"] == "/v1/embeddings"
    assert setup.http.get("/api/hello?x=1").json()["path"] == "/api/hello?x=1"
    assert setup.http.get("/").json()["path"] == "/"
    assert setup.post("/chat/completions", HELLO).json()["path"] == "/v1/chat/completions"
    response = setup.post("/v1/messages/count_tokens", MESSAGES_BODY)
    assert response.json()["path"] == "/v1/messages/count_tokens"
    assert setup.model.requests[-1].json == MESSAGES_BODY


def test_uploads_are_streamed(setup: Setup) -> None:
    setup.model.answer = lambda request: json_reply({"bytes": len(request.body)})

    async def upload() -> httpx.Response:
        async with httpx.AsyncClient(base_url=setup.url) as http:
            return await http.post("/v1/files", content=slow_body([b"a" * 1000] * 5, 0.01))

    assert asyncio.run(upload()).json() == {"bytes": 5000}


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b'{"messages": 3}'])
def test_invalid_model_call_is_forwarded(setup: Setup, raw: bytes) -> None:
    setup.model.script = [json_reply({"error": {"message": "bad"}}, 400)]
    assert setup.http.post("/v1/chat/completions", content=raw).status_code == 400
    assert setup.model.requests[0].body == raw


def test_unreachable_provider_is_502(start: Start) -> None:
    response = start(upstream="http://127.0.0.1:9/v1").post("/v1/chat/completions", HELLO)
    assert response.status_code == 502
    assert response.json()["error"]["code"] == "upstream_unavailable"


def test_local_provider_is_reached_without_network_proxy(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    setup = start()
    response = httpx.post(f"{setup.url}/v1/chat/completions", json=HELLO, trust_env=False)
    assert response.json() == chat("hello")


def test_interrupted_reply_is_interrupted_for_agent(setup: Setup) -> None:
    reply = stream(chat_events("Hello there."))
    setup.model.script = [Reply(reply.chunks[:3], 200, reply.headers, breaks=True)]
    with pytest.raises(httpx.RemoteProtocolError):
        setup.post("/v1/chat/completions", {**HELLO, "stream": True})


def test_agent_disconnect_cancels_model_call(setup: Setup) -> None:
    slow = stream(chat_events("Hello there, this takes a while."), pause=1.0)
    setup.model.script = [slow, slow]
    with setup.http.stream(
        "POST", "/v1/chat/completions", json={**HELLO, "stream": True}
    ) as response:
        next(response.iter_raw())
    wait_until(lambda: setup.model.cancelled == 1)
    late = json_reply(chat("hello"))
    setup.model.script = [Reply(late.chunks, 200, late.headers, pause=300.0)]

    async def leave() -> None:
        async with httpx.AsyncClient(base_url=setup.url) as http:
            request_task = asyncio.create_task(http.post("/v1/chat/completions", json=HELLO))
            while len(setup.model.requests) < 2:
                await asyncio.sleep(0.01)
            request_task.cancel()

    asyncio.run(leave())
    wait_until(lambda: setup.model.cancelled == 2)


OUTSIDE = [
    *("/../../../admin?x=1", "/v1/%2e%2e/admin", "/v1/%252e%252e/admin", "/v1/..%5cadmin"),
    *("/v1/..;/admin", "//elsewhere/v1/models", "/s/mine//elsewhere/models", "*"),
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_path_outside_provider_address_is_refused(setup: Setup, path: str) -> None:
    place = urlsplit(setup.url)
    connection = HTTPConnection(place.hostname or "", place.port)
    connection.putrequest("GET", path)
    connection.endheaders()
    response = connection.getresponse()
    assert (response.status, json.loads(response.read())["error"]["code"]) == (400, "invalid_path")
    connection.close()
    assert setup.model.requests == []


def test_path_without_version_stays_below_provider_address(start: Start) -> None:
    setup = start()
    start(upstream=f"{setup.model.url}/gateway/v1").http.get("/files/a%20b/c.d..e?x=../y")
    assert setup.model.requests[-1].path.startswith("/gateway/files/a")


@pytest.mark.slow
def test_huge_event_is_forwarded_complete(setup: Setup) -> None:
    """It arrives in 64 KiB chunks."""
    delta = {"index": 0, "delta": {"content": "a" * LARGE}, "finish_reason": None}
    reply = stream([{"id": "c", "choices": [delta]}, "[DONE]"])
    data = reply.body
    reply.chunks = [data[at : at + 2**16] for at in range(0, len(data), 2**16)]
    setup.model.script = [reply]
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    body = {**HELLO, "stream": True, "tools": [tool]}
    response = setup.post("/v1/chat/completions", body)
    assert response.status_code == 200
    event = json.loads(response.content.partition(b"data: ")[2].partition(b"\n\n")[0])
    assert len(event["choices"][0]["delta"]["content"]) == LARGE
