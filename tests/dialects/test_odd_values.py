"""An invalid value anywhere in a request is kept and raises nothing."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.fitting import dialect_of
from contextrender_bridge.dialects import DIALECTS, MessagePlan
from contextrender_bridge.engine.text.transcript import check_messages

from tests.support.transcripts import assistant, call, result, system, user

MARK = {"type": "ephemeral"}
DOCUMENT = {"type": "document", "source": {"type": "text", "data": "d", "media_type": "text/plain"}}
CUSTOM = {"id": "c2", "type": "custom", "custom": {"name": "b", "input": "x"}}
CITED = {"type": "search_result_location", "search_result_index": 0}

BODIES: dict[str, Json] = {
    "chat": {
        "messages": [
            system("Help."),
            user("Go.") | {"name": "ann", "tool_calls": []},
            user([{"type": "text", "text": "é"}, {"type": "image_url"}]),
            assistant(None, call("c1", "a"), CUSTOM),
            result("c1", "found REQ-1"),
            result("c2", [{"type": "text", "text": "é"}]),
        ]
    },
    "messages": {
        "system": [{"type": "text", "text": "Help.", "cache_control": MARK}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Go."}, DOCUMENT]},
            {"role": "system", "content": "Now it is noon."},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "t", "signature": "s"},
                    {"type": "text", "text": "So.", "citations": [CITED]},
                    {"type": "server_tool_use", "id": "s1", "name": "web", "input": {}},
                    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
                    {"type": "tool_use", "id": "t1", "name": "a", "input": {"at": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [DOCUMENT]},
                    {"type": "text", "text": "On.", "cache_control": MARK},
                ],
            },
        ],
    },
    "responses": {
        "instructions": "Help.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Go."}]},
            {"type": "reasoning", "id": "r1", "summary": []},
            {"type": "function_call", "call_id": "k1", "name": "a", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "k2", "name": "b", "input": "x"},
            {"type": "function_call_output", "call_id": "k1", "output": "found REQ-1"},
            {"type": "custom_tool_call_output", "call_id": "k2", "output": "done"},
            {"type": "mcp_call", "id": "m1", "name": "c", "arguments": "{}", "output": "o"},
            {"type": "shell_call", "call_id": "k3", "action": {"commands": ["ls"]}},
            {"type": "shell_call_output", "call_id": "k3", "output": [{"stdout": "x"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text"}]},
        ],
    },
    "observations": {
        "messages": [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": [{"type": "text", "text": "Action: look"}]},
            {"role": "user", "content": "Observation:\nfound REQ-1"},
            {"role": "tool-call", "content": "Calling tools:"},
            {"role": "tool-response", "content": [{"type": "text", "text": "é"}]},
        ]
    },
}
ODD: list[Any] = [
    *([], {}, None, 7, True, "", "é\ud83d"),
    *([[]], [{}], [None], [{"type": []}], {"a": 1}),
]


def bodies_with_odd_values(body: Any, part: Any) -> Iterator[Any]:
    """Yield copies of `body` with each value in `part` replaced by each odd value."""
    for key in part if isinstance(part, dict) else range(len(part)):
        original = part[key]
        for value in ODD:
            part[key] = value
            yield copy.deepcopy(body)
        part[key] = original
        if isinstance(original, (dict, list)):
            yield from bodies_with_odd_values(body, original)


def plans(messages: list[Json]) -> Iterator[MessagePlan]:
    """Yield plans that show, replace and omit the messages."""
    numbers = [range(len(message.get("tool_calls") or ())) for message in messages]
    breakpoints = range(len(messages))
    short = [
        {"message": n, "calls": calls, "text": "cut", "arguments": ['{"cut": true}' for _ in calls]}
        for n, calls in enumerate(numbers)
    ]
    full_rows = [{"message": n, "calls": calls} for n, calls in enumerate(numbers)]
    yield MessagePlan(messages, full_rows, breakpoints)
    yield MessagePlan(messages, short, breakpoints)
    yield MessagePlan(messages, full_rows[::2], breakpoints)
    yield MessagePlan(messages, [])


@pytest.mark.parametrize("dialect", BODIES)
def test_odd_value_is_kept(dialect: str) -> None:
    body = copy.deepcopy(BODIES[dialect])
    for odd in bodies_with_odd_values(body, body):
        before = json.dumps(odd)
        transcript = DIALECTS[dialect].read(odd)
        dialect_of("chat", odd)
        if transcript.messages:
            check_messages(transcript.messages, 0)
        json.dumps(transcript.messages).encode()
        assert transcript.apply(MessagePlan.full_history(transcript.messages)) == odd
        for plan in plans(transcript.messages):
            json.dumps(transcript.apply(plan))
            plan.results_of(["*"])
        for position, message in enumerate(transcript.messages):
            if message["role"] == "tool":
                transcript.result(position)
        assert json.dumps(odd) == before
    assert body == BODIES[dialect]
