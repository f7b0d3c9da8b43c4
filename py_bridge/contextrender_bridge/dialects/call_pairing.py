"""Pairing of tool calls and results that have no ids, by their order.

In Ollama's and in older chat completions, a result only names its tool, and some gateways leave ids
empty. Such a result answers the first call without a result in the latest step with calls. If the
result names its tool, the call must be of that tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contextrender_bridge.base.wire import Json

PREFIX = "call-"
"""The prefix of generated ids such as `call-7-0`: for call 0 of message 7."""


def generated_id(message: int, number: int) -> str:
    """Return an id for the call with this number in a canonical message."""
    return f"{PREFIX}{message}-{number}"


def is_generated_id(name: str) -> bool:
    """Return whether an id has the form that `generated_id` makes."""
    first, _, number = name.removeprefix(PREFIX).partition("-")
    return name.startswith(PREFIX) and first.isdigit() and number.isdigit()


def answered_id(
    messages: Sequence[Json], result_id: object, tool: object, later_ids: Sequence[object] = ()
) -> str | None:
    """Return the id of the call that a result answers; None if it answers no call.

    The result follows `messages`. `result_id` is its call id and `tool` its tool's name, if it has
    them. `later_ids` are the call ids of the results after it in the same step.

    Return the result's own id if an open call has this id, or if no open call has a generated id. A
    call without an id gets a generated one, which the agent's results cannot name. So otherwise
    return the id of the first open call that meets all of these conditions:

    - It is of the result's tool, if the result names its tool.
    - Its id is generated, if the result has an id.
    - No later result has its id.

    If there is no such call, return the result's own id.
    """
    own_id = result_id if isinstance(result_id, str) and result_id else ""
    calls = open_calls(messages)
    call_ids = [id for id, _ in calls]
    if own_id and (own_id in call_ids or not any(map(is_generated_id, call_ids))):
        return own_id
    # Pair the result by the order of the calls.
    names_tool = isinstance(tool, str) and bool(tool)
    for id, call_tool in calls:
        is_of_tool = not names_tool or call_tool == tool
        id_may_differ = not own_id or is_generated_id(id)
        if is_of_tool and id_may_differ and id not in later_ids:
            return id
    return own_id or None


def open_calls(messages: Sequence[Json]) -> list[tuple[str, str]]:
    """Return the id and the tool of each call in the model's last message that has no result yet.

    Return an empty list if that message has no calls.
    """
    # Read backwards, and collect the ids of the results after the model's message.
    answered_ids: list[object] = []
    for message in reversed(messages):
        if message["role"] == "tool":
            answered_ids.append(message["tool_call_id"])
        elif message.get("tool_calls"):
            calls = []
            for call in message["tool_calls"]:
                # Several calls may have the same id, so each result stands for one call only.
                if call["id"] in answered_ids:
                    answered_ids.remove(call["id"])
                else:
                    calls.append((call["id"], str(call[call["type"]]["name"])))
            return calls
        elif message["role"] == "assistant":
            return []
    return []


def ids_of_step(items: Sequence[Any], id_field: str) -> list[object]:
    """Return the call ids of the results in `items`, up to the model's next message.

    `id_field` is the field of a result with its call id.
    """
    ids: list[object] = []
    for item in items:
        if not isinstance(item, Mapping) or item.get("role") == "assistant":
            break
        if item.get(id_field):
            ids.append(item[id_field])
    return ids
