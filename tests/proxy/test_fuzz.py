"""Whatever is sent to the proxy and to the MCP server passes, or is refused: never a failure.

`make fuzz` sets `FUZZ_EXAMPLES`; what failed is kept in `.hypothesis` and tried first.
"""

import json
from typing import Any

import httpx
import pytest
from contextrender_bridge import Credentials
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.test_odd_values import BODIES
from tests.proxy import test_mcp
from tests.proxy.conftest import Setup
from tests.support.fuzzing import JSON, fuzz, raw, spoilt
from tests.support.scripted_model import whole

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
    try:
        given = json.loads(body)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        assert sent == body
    else:
        passed = json.loads(sent)
        kept = [{k: v for k, v in one.items() if k not in HISTORY} for one in (passed, given)]
        assert json.dumps(kept[0], sort_keys=True) == json.dumps(kept[1], sort_keys=True)


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

    arguments = JSON | spoilt({"session": "s", "results": [1], "budget": 9})
    calls = st.builds(
        lambda name, given: right | {"params": {"name": name, "arguments": given}},
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
