"""Histories to record, in the formats of agent runtimes."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from contextrender_bridge.base.wire import Json


def user(content: Any) -> Json:
    return {"role": "user", "content": content}


def system(content: Any) -> Json:
    return {"role": "system", "content": content}


def assistant(content: Any, *calls: Json) -> Json:
    message: Json = {"role": "assistant", "content": content}
    return {**message, "tool_calls": list(calls)} if calls else message


def call(call_id: str, name: str, arguments: Any = "{}") -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id: str, content: Any) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def step(call_id: str, name: str, arguments: Any, content: Any, text: Any = None) -> list[Json]:
    return [assistant(text, call(call_id, name, arguments)), result(call_id, content)]


def agent_run(turns: int, *, lines: int = 12) -> list[Json]:
    """Return a run in which each turn looks up an order that an earlier result named."""
    messages = [
        {"role": "system", "content": "You work at the order desk."},
        user("Find out why order ORD-1000 is late and who should be told."),
    ]
    for turn in range(turns):
        order = f"ORD-{1000 + turn * 5 // 7}"
        arguments = json.dumps({"order_id": order})
        rows = [
            f"row {row}: {order} moved via hub_{(turn * 3 + row) % 9} on day {row}"
            for row in range(lines)
        ]
        order_line = f"order {order} precedes ORD-{1001 + turn}, clerk_{turn}@example.com\n"
        text = order_line + "\n".join(rows)
        messages += step(f"call_{turn}", "get_order", arguments, text, f"I look up {order}.")
        if turn % 5 == 4:
            messages.append(user(f"What about clerk_{turn - 2}@example.com?"))
    return messages


def render_calls(
    api: Callable[..., Any], session: str, run: list[Json], **fields: Any
) -> list[Json]:
    """Render before each answer, as an agent does, and record the last answer. Return the
    replies."""
    replies: list[Json] = []
    new: Json = {"offset": 0, "prefix": ""}
    for position, message in enumerate(run):
        if message["role"] == "assistant":
            new["messages"] = run[new["offset"] : position]
            view = api("render", session=session, output="plan", **new, **fields)
            new = {"offset": view["offset"], "prefix": view["digest"]}
            replies.append(view)
    api("sync", session=session, messages=run[new["offset"] :], **new)
    return replies


UNUSUAL: list[Json] = [
    {"role": "developer", "content": "Be brief.", "name": "policy"},
    user(
        [
            {"type": "text", "text": "What is in the picture, é 😀?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            "a bare part",
        ]
    ),
    {
        **assistant(
            None,
            call("a", "json", '{"order_id": "ORD-1000"}'),
            call("b", "empty", ""),
            call("c", "object", {"deep": ["x_1\n", 1.5, None, True], "order_id": "ORD-1000"}),
            call("d", "not_json", "ORD-1000 and \\n more"),
            call("e", "null", None),
            {"id": "f", "type": "function", "function": {"name": "none_at_all"}, "index": 5},
            {"id": "g", "type": "custom", "custom": {"name": "grammar", "input": "SELECT 1"}},
        ),
        "refusal": None,
        "annotations": [],
        "x_extra": {"deep": [1, 1.5, None, False, {"": ""}]},
    },
    result("g", [{"type": "text", "text": "one"}, {"type": "text", "text": "two ORD-1001"}]),
    result("c", ""),
    result("a", "ORD-1001 is next\r\n\ttab"),
    {**result("f", None), "name": "none_at_all", "is_error": True},
    result("b", '{"status_code": 200}'),
    result("e", "null"),
    result("d", "plain"),
    assistant([{"type": "text", "text": "It is ORD-1001."}, {"type": "refusal", "refusal": "No."}]),
    {"role": "assistant", "content": "", "tool_calls": []},
    {"role": "assistant", "content": None},
    {"role": "system", "content": "A late note."},
    user(""),
]
"""Every feature of OpenAI's format; every call has a result."""


def numbers_in(flat_runs: Sequence[int]) -> list[int]:
    """Return the numbers in the runs that `to_runs` returned."""
    numbers: list[int] = []
    for first, length in zip(flat_runs[::2], flat_runs[1::2], strict=True):
        numbers += range(first, first + length)
    return numbers
