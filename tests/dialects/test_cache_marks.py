"""Cache breakpoints of the service become marks in a Messages request."""

import copy
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects import DIALECTS, MESSAGES, MessagePlan

MARK = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}


def conversation(turns: int) -> Json:
    """Return a task, and for each turn thinking with a call (message 2n + 2) and its result (2n +
    3)."""
    items: list[Json] = [{"role": "user", "content": "Look around."}]
    for number in range(turns):
        thought = {"type": "thinking", "thinking": "Hm.", "signature": f"s{number}"}
        call = {"type": "tool_use", "id": f"t{number}", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"n{number}"}
        items += [
            {"role": "assistant", "content": [thought, call]},
            {"role": "user", "content": [result]},
        ]
    items[-1]["content"][-1]["cache_control"] = MARK
    return {"model": "m", "system": [{"type": "text", "text": "Be brief."}], "messages": items}


def apply_breakpoints(body: Json, breakpoints: list[int], left_out: int | None = None) -> Json:
    """Apply a plan with these breakpoints; `left_out` omits one result and its call."""
    transcript = MESSAGES.read(body)
    removed = {left_out} if left_out is None else {left_out, left_out - 1}
    rows = [
        {"message": position, "calls": list(range(len(message.get("tool_calls") or ())))}
        for position, message in enumerate(transcript.messages)
        if position not in removed
    ]
    before = copy.deepcopy(body)
    new_body = transcript.apply(MessagePlan(transcript.messages, rows, breakpoints))
    assert body == before
    return new_body


def marks(part: Any) -> list[Json]:
    if isinstance(part, dict):
        own_marks = [part["cache_control"]] if "cache_control" in part else []
        return [mark for value in part.values() for mark in marks(value)] + own_marks
    return [mark for child in part for mark in marks(child)] if isinstance(part, list) else []


def marked_messages(body: Json) -> list[int]:
    return [number for number, item in enumerate(body["messages"]) if marks(item)]


def test_breakpoint_is_on_last_block_of_its_message() -> None:
    body = conversation(4)
    new_body = apply_breakpoints(body, [1, 4, 5])
    assert new_body["messages"][0]["content"] == [
        {"type": "text", "text": "Look around.", "cache_control": MARK}
    ]
    assert new_body["messages"][3]["content"][0] == body["messages"][3]["content"][0]
    assert new_body["messages"][3]["content"][1]["cache_control"] == MARK
    assert marked_messages(new_body) == [0, 3, 4, 8]


@pytest.mark.parametrize("existing", [1, 2, 3, 4])
def test_request_has_at_most_four_breakpoints(existing: int) -> None:
    body = conversation(4)
    body["tools"] = [{"name": "look", "input_schema": {}}]
    spots: list[Json] = [body["tools"][0], body["system"][0], body["messages"][6]["content"][0]]
    for spot in spots[: existing - 1]:
        spot["cache_control"] = MARK
    new_body = apply_breakpoints(body, [1, 4, 5])
    assert len(marks(new_body)) == 4
    marked_before = marked_messages(body)
    assert marked_messages(new_body) == sorted([*marked_before, *[0, 3, 4][: 4 - existing]])


def test_existing_marks_count() -> None:
    body = conversation(4)
    inner = {"type": "text", "text": "n0", "cache_control": MARK}
    body["messages"][2]["content"][0]["content"] = [inner]
    body["cache_control"] = MARK
    assert marked_messages(apply_breakpoints(body, [1, 4, 5])) == [0, 2, 8]


def test_long_lived_marks_precede_short_lived_ones() -> None:
    body = conversation(4)
    body["system"][0]["cache_control"] = LONG
    body["messages"][4]["content"][0]["cache_control"] = LONG
    new_body = apply_breakpoints(body, [1, 6])
    assert [mark.get("ttl") for mark in marks(new_body["messages"])] == ["1h", "1h", None]
    new_body = apply_breakpoints(body, [6])
    assert [mark.get("ttl") for mark in marks(new_body["messages"])] == ["1h", None, None]


def test_mark_after_agents_last_one_lives_as_long() -> None:
    body = conversation(4)
    body["system"][0]["cache_control"] = LONG
    del body["messages"][-1]["content"][-1]["cache_control"]
    body["messages"][2]["content"][0]["cache_control"] = MARK
    assert marks(apply_breakpoints(body, [6])["messages"]) == [MARK, MARK]


def test_breakpoint_moves_before_omitted_message() -> None:
    new_body = apply_breakpoints(conversation(4), [5], left_out=5)
    assert marked_messages(new_body)[0] == 2
    assert "t1" not in str(new_body)


def test_marked_and_unmarkable_blocks_are_unchanged() -> None:
    body = conversation(4)
    assert apply_breakpoints(body, [9]) == body
    body["messages"].insert(0, {"role": "user", "content": [{"type": "text", "text": " "}]})
    assert apply_breakpoints(body, [1]) == body
    del body["messages"][-1]["content"][-1]["cache_control"]
    assert apply_breakpoints(body, [1, 4, 5]) == body


@pytest.mark.parametrize(
    ("dialect", "body", "minutes"),
    [
        ("messages", {"messages": []}, 5),
        ("messages", {"system": [{"type": "text", "text": "s", "cache_control": {}}]}, 5),
        ("messages", {"cache_control": {"type": "ephemeral", "ttl": "1h"}, "messages": []}, 60),
        ("messages", {"tools": [{"name": "t", "cache_control": {"ttl": "1h"}}]}, 60),
        (
            "messages",
            {"messages": [{"content": [{"type": "text", "cache_control": {"ttl": "5m"}}]}]},
            5,
        ),
        ("chat", {"messages": [], "prompt_cache_retention": "24h"}, 1_000),
        ("responses", {"input": []}, 5),
    ],
)
def test_cache_lifetime_is_read_from_request(dialect: str, body: Json, minutes: int) -> None:
    assert DIALECTS[dialect].read(body).cache_ttl_minutes == minutes
