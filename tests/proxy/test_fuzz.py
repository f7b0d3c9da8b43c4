"""Whatever is sent to the proxy and to the MCP server passes, or is refused: never a failure.

`make fuzz` sets `FUZZ_EXAMPLES`; what failed is kept in `.hypothesis` and tried first.
"""

import json
from typing import Any

import httpx
import pytest
from contextrender_bridge import Credentials
from contextrender_bridge.proxy.recall.turns import NAME
from hypothesis import given
from hypothesis import strategies as st

from tests.proxy import test_mcp
from tests.proxy.agents import TASK, finding
from tests.proxy.conftest import Setup
from tests.support.fuzzing import JSON, fuzz, raw, spoilt
from tests.support.scripted_model import (
    Asked,
    Reply,
    call,
    chat,
    chat_events,
    response,
    response_events,
    said,
    said_events,
    stream,
    whole,
)
from tests.support.transcripts import step, user

ASKS = {"name": "look", "arguments": "{}"}
USES = {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "host_A1"}}
GIVES = {"type": "tool_result", "tool_use_id": "c1", "content": finding(1)}
DIALECTS: dict[str, Any] = {
    "/v1/chat/completions": {
        "model": "m",
        "messages": [user(TASK), *step("c1", "look", "{}", finding(1))],
    },
    "/v1/messages": {
        "model": "m",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "Help."}],
        "messages": [
            {"role": "user", "content": TASK},
            {"role": "assistant", "content": [{"type": "text", "text": "So."}, USES]},
            {"role": "user", "content": [GIVES]},
        ],
    },
    "/v1/responses": {
        "model": "m",
        "instructions": "Help.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": TASK}]},
            {"type": "function_call", "call_id": "c1", **ASKS},
            {"type": "function_call_output", "call_id": "c1", "output": finding(1)},
        ],
    },
}
HISTORY = ("messages", "input", "system", "instructions", "tools")
mcp_address = test_mcp.address


@pytest.mark.parametrize("path", DIALECTS)
@fuzz
@given(data=st.data())
def test_a_request_passes_or_is_refused(setup: Setup, path: str, data: st.DataObject) -> None:
    body = data.draw(raw(DIALECTS[path]))
    setup.model.asked, setup.model.answer = [], lambda _: whole({"object": "fine"})
    headers = {"authorization": "Bearer sk-1", "content-type": "application/json"}
    reply = setup.http.post(path, content=body, headers=headers)
    assert reply.status_code < 500, reply.text
    if reply.status_code >= 400:
        assert "error" in reply.json()
        return
    assert reply.json() == {"object": "fine"}
    sent = setup.model.asked[-1].body
    if (given := _object(body)) is None:
        assert sent == body
    else:
        passed = json.loads(sent)
        assert _rest(passed) == _rest(given)


@pytest.mark.parametrize(
    ("path", "right"), [(p, said([USES]) if "messages" in p else chat("So.")) for p in DIALECTS]
)
@fuzz
@given(data=st.data())
def test_a_reply_comes_back_as_it_is(
    setup: Setup, path: str, right: Any, data: st.DataObject
) -> None:
    told = data.draw(raw(right))
    kind = data.draw(st.sampled_from([b"application/json", b"text/event-stream"]))

    def answer(_: Asked) -> Reply:
        return Reply([told], 200, [(b"content-type", kind)])

    setup.model.answer = answer
    reply = setup.post(path, DIALECTS[path])
    assert reply.status_code == 200
    assert reply.content == told


RECALLS = {"query": "host_A1"}
TURNS: dict[str, tuple[Any, list[Any]]] = {
    "/v1/chat/completions": (
        chat("So.", [call("r1", NAME, **RECALLS), call("c2", "look")]),
        chat_events("So.", [call("r1", NAME, **RECALLS), call("c2", "look")])[:-1],
    ),
    "/v1/messages": (
        said([USES | {"id": "r1", "name": NAME, "input": RECALLS}, USES], "tool_use"),
        said_events([USES | {"id": "r1", "name": NAME, "input": RECALLS}, USES], "tool_use"),
    ),
    "/v1/responses": (
        response([{"type": "function_call", "call_id": "r1", "name": NAME, "arguments": "{}"}]),
        response_events(
            [{"type": "function_call", "call_id": "r1", "name": NAME, "arguments": "{}"}]
        ),
    ),
}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("path", TURNS)
@fuzz
@given(data=st.data())
def test_an_odd_reply_to_recall_comes_to_its_end(
    setup: Setup, path: str, streams: bool, data: st.DataObject
) -> None:
    reply, told = TURNS[path]
    odd = data.draw(spoilt(told if streams else reply))
    if streams:
        setup.model.answer = lambda _: stream(odd if isinstance(odd, list) else [odd])
    else:
        setup.model.answer = lambda _: whole(odd)
    body = {**DIALECTS[path], "store": False, "stream": streams}
    got = setup.post(path, body, x_contextrender_recall="on")
    assert got.status_code == 200


@pytest.mark.slow
def test_mcp_answers_or_refuses(credentials: Credentials, mcp_address: str) -> None:
    headers = {
        "authorization": f"Bearer {credentials.token}",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
    }
    right = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "recall", "arguments": {"session": "s", "results": [1]}},
    }

    with httpx.Client(headers=headers, timeout=30) as http:

        @fuzz
        @given(st.one_of(raw(right), *(_with_arguments(right, name) for name in TOOLS)))
        def answers(body: bytes) -> None:
            reply = http.post(mcp_address, content=body)
            assert reply.status_code < 500, reply.text

        answers()


TOOLS = ("recall", "explain", "sessions")


def _with_arguments(right: Any, tool: str) -> st.SearchStrategy[bytes]:
    return st.one_of(JSON, spoilt({"session": "s", "results": [1], "budget": 9})).map(
        lambda given: json.dumps(right | {"params": {"name": tool, "arguments": given}}).encode()
    )


def _object(body: bytes) -> Any:
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _rest(body: Any) -> str:
    kept = {key: value for key, value in body.items() if key not in HISTORY}
    return json.dumps(kept, sort_keys=True)
