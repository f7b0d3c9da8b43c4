"""Any request to the proxy or the MCP server passes or is refused, and never fails.

`make fuzz` sets `FUZZ_EXAMPLES`. Failed examples are stored in `.hypothesis` and tried first.
"""

import asyncio
import json
from typing import Any

import httpx
import pytest
from contextrender_bridge import Credentials
from contextrender_bridge.proxy.provider import UsageCapture
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.test_odd_values import BODIES
from tests.proxy import test_mcp
from tests.proxy.conftest import Setup
from tests.support.codings import COMPRESS
from tests.support.fuzzing import JSON, damaged_copy, fuzz, raw
from tests.support.scripted_model import json_reply

DIALECTS: dict[str, Any] = {
    "/v1/chat/completions": {"model": "m", **BODIES["chat"]},
    "/v1/messages": {"model": "m", "max_tokens": 9, **BODIES["messages"]},
    "/v1/responses": {"model": "m", **BODIES["responses"]},
}
HISTORY = ("messages", "input", "system", "instructions", "tools")
mcp_address = test_mcp.address


@pytest.mark.parametrize("path", DIALECTS)
@fuzz
@given(data=st.data())
def test_request_passes_or_is_refused(setup: Setup, path: str, data: st.DataObject) -> None:
    body = data.draw(raw(DIALECTS[path]))
    setup.model.requests, setup.model.answer = [], lambda _: json_reply({"object": "fine"})
    headers = {"authorization": "Bearer sk-1", "content-type": "application/json"}
    reply = setup.http.post(path, content=body, headers=headers)
    assert reply.status_code < 500, reply.text
    if reply.status_code >= 400:
        assert "error" in reply.json()
        return
    assert reply.json() == {"object": "fine"}
    request_body = setup.model.requests[-1].body
    try:
        fields = json.loads(body)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        assert request_body == body
    else:
        received_fields = json.loads(request_body)
        other_fields = [
            {k: v for k, v in members.items() if k not in HISTORY}
            for members in (received_fields, fields)
        ]
        assert json.dumps(other_fields[0], sort_keys=True) == json.dumps(
            other_fields[1], sort_keys=True
        )


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

    arguments = JSON | damaged_copy({"session": "s", "results": [1], "budget": 9})
    calls = st.builds(
        lambda name, values: right | {"params": {"name": name, "arguments": values}},
        st.sampled_from(["recall", "explain", "sessions"]),
        arguments,
    )
    with httpx.Client(headers=headers, timeout=30) as http:

        @fuzz
        @given(raw(right) | calls.map(lambda call: json.dumps(call).encode()))
        def answers(body: bytes) -> None:
            reply = http.post(mcp_address, content=body)
            assert reply.status_code < 500, reply.text

        answers()


COUNTS = st.integers(1, 2_000_000)
NUMBERS: st.SearchStrategy[Any] = st.sampled_from([int, float, str, lambda count: f"{count:,}"])
LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
NOISE = st.sampled_from(
    ["", "usage", 'a "usage": {"prompt_tokens": 5}', "äöü €", "步骤", "a\u2028b"]
)


@st.composite
def replies(draw: st.DrawFn, path: str) -> tuple[bytes, bytes, tuple[int, int, int]]:
    """Draw a provider's reply with its content type, and its uncached, cached and output tokens."""
    uncached, cached, output = draw(COUNTS), draw(st.just(0) | COUNTS), draw(COUNTS)
    number, noise = draw(NUMBERS), draw(NOISE)
    streams = draw(st.booleans())
    events: list[Any]
    if path == "/v1/messages":
        usage = {
            "input_tokens": number(uncached),
            "cache_read_input_tokens": number(cached),
            "cache_creation_input_tokens": 0,
        }
        text = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": noise}}
        end = {"type": "message_delta", "usage": {"output_tokens": number(output)}}
        start = {"type": "message_start", "message": {"usage": {**usage, "output_tokens": 1}}}
        events = [start, text, end]
        whole_reply: Any = {"content": noise, "usage": {**usage, "output_tokens": number(output)}}
    elif path == "/v1/responses":
        details = {"cached_tokens": number(cached)}
        usage = {"input_tokens": number(uncached + cached), "input_tokens_details": details}
        whole_reply = {"output": noise, "usage": {**usage, "output_tokens": number(output)}}
        first_event = {
            "type": "response.created",
            "response": {"usage": None, "instructions": noise},
        }
        events = [first_event, {"type": "response.completed", "response": whole_reply}]
    else:
        usage = {
            "prompt_tokens": number(uncached + cached),
            "completion_tokens": number(output),
            "prompt_tokens_details": {"cached_tokens": number(cached)},
        }
        whole_reply = {"choices": [{"message": {"content": noise}}], "usage": usage}
        chunk = {"choices": [{"delta": {"content": noise}}], "usage": None}
        events = [chunk, {"choices": [], "usage": usage}]
    counts = uncached, cached, output
    ascii_only = draw(st.booleans())
    texts = [json.dumps(event, ensure_ascii=ascii_only).encode() for event in events]
    if not streams:
        return b"application/json", json.dumps(whole_reply).encode(), counts
    end_of_line = draw(LINE_ENDS)
    lines = [b": comment", b""] if draw(st.booleans()) else []
    for event_text in texts:
        lines += [b"data: " + event_text, b""]
    return b"text/event-stream", end_of_line.join([*lines, b"data: [DONE]", b"", b""]), counts


@pytest.mark.parametrize("path", DIALECTS)
@fuzz
@given(data=st.data())
def test_usage_is_read_from_whatever_passes(path: str, data: st.DataObject) -> None:
    """The reply passes byte for byte, in any coding and cut anywhere, and its usage is known."""
    kind, plain, (uncached, cached, output) = data.draw(replies(path))
    coding = data.draw(st.sampled_from([*COMPRESS]))
    body = COMPRESS[coding](plain)
    size = data.draw(st.integers(1, max(len(body), 1)))
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    async def relay() -> UsageCapture:
        capture = UsageCapture(send)
        headers = [(b"content-type", kind), (b"content-encoding", coding.encode())]
        await capture({"type": "http.response.start", "status": 200, "headers": headers})
        for at in range(0, len(body), size):
            await capture({"type": "http.response.body", "body": body[at : at + size]})
        return capture

    usage = asyncio.run(relay()).usage()
    assert b"".join(message.get("body", b"") for message in messages) == body
    assert usage is not None
    assert (usage.uncached, usage.cache_read, usage.output) == (uncached, cached, output)
