"""Checks for every prompt, and how a caller builds messages from a plan."""

from collections.abc import Mapping, Sequence
from typing import Any

from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.text.tokens import counter_for


def build_prompt(sent_messages: Sequence[Json], plan: Sequence[Json]) -> list[Json]:
    """Return the prompt built from a caller's own messages and `output="plan"`."""
    messages = []
    for row in plan:
        message = dict(sent_messages[row["message"]])
        calls = message.get("tool_calls")
        if message["role"] == "assistant" and calls:
            message["tool_calls"] = [calls[index] for index in row["calls"]]
            if not message["tool_calls"]:
                del message["tool_calls"]
        if row["text"] is not None:
            message["content"] = row["text"]
        messages.append(message)
    return messages


def tokens_inside(messages: Sequence[Json], model: str | None = None) -> int:
    """Count the tokens inside the budget: all but the system prompt and the last user message."""
    counter = counter_for(model)
    system = 0
    while system < len(messages) and messages[system]["role"] in ("system", "developer"):
        system += 1
    users = [index for index, message in enumerate(messages) if message["role"] == "user"]
    unbudgeted = {*range(system), *users[-1:]}
    return sum(
        counter.message(message)
        for index, message in enumerate(messages)
        if index not in unbudgeted
    )


def orphans(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the ids of calls without a later result, and of results without an earlier call."""
    open_calls: list[str] = []
    strays: list[str] = []
    for message in messages:
        if message["role"] == "assistant":
            open_calls += [call["id"] for call in message.get("tool_calls") or ()]
        elif message["role"] == "tool":
            if message["tool_call_id"] in open_calls:
                open_calls.remove(message["tool_call_id"])
            else:
                strays.append(message["tool_call_id"])
    return open_calls + strays
