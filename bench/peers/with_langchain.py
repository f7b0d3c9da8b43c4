"""langchain-core's `trim_messages` and langchain's `ClearToolUsesEdit`."""

import json

from contextrender_bridge.engine.text.tokens import counter_for
from langchain.agents.middleware.context_editing import ClearToolUsesEdit
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    trim_messages,
)


def make(variant):
    counter = counter_for(None)

    def shorten(messages, tokens):
        sizes = [counter.message(message) for message in messages]
        converted = [_to_langchain(message, i) for i, message in enumerate(messages)]

        def count(messages_to_count):
            if not isinstance(messages_to_count, list):
                messages_to_count = [messages_to_count]
            return sum(_size(message, messages, sizes, counter) for message in messages_to_count)

        if variant == "clear":
            ClearToolUsesEdit(trigger=tokens).apply(converted, count_tokens=count)
        elif variant == "clear fitted":
            converted = _clear_to_fit(messages, tokens, converted, count)
        else:
            converted = trim_messages(
                converted,
                max_tokens=tokens,
                token_counter=count,
                strategy="last",
                include_system=True,
            )
        return [_from_langchain(message, messages) for message in converted]

    return shorten


def _clear_to_fit(messages, tokens, converted, count):
    """Return the history cleared with as many of its newest results as fit the budget."""
    for keep in range(sum(message["role"] == "tool" for message in messages), -1, -1):
        cleared = [message.model_copy() for message in converted]
        ClearToolUsesEdit(trigger=tokens, keep=keep).apply(cleared, count_tokens=count)
        if count(cleared) <= tokens:
            break
    return cleared


def _size(message, messages, sizes, counter):
    original = messages[int(message.id)]
    if message.content == (original.get("content") or ""):
        return sizes[int(message.id)]
    return counter.message({**original, "content": message.content})


def _to_langchain(message, index):
    role, content, id = message["role"], message.get("content") or "", str(index)
    if role == "assistant":
        calls = [_call(call) for call in message.get("tool_calls") or ()]
        return AIMessage(content, tool_calls=calls, id=id)
    if role == "tool":
        return ToolMessage(content, tool_call_id=message["tool_call_id"], id=id)
    return (HumanMessage if role == "user" else SystemMessage)(content, id=id)


def _call(call):
    try:
        arguments = json.loads(call["function"]["arguments"])
    except ValueError:
        arguments = {}
    arguments = arguments if isinstance(arguments, dict) else {}
    return {"name": call["function"]["name"], "args": arguments, "id": call["id"]}


def _from_langchain(message, messages):
    original = messages[int(message.id)]
    if message.content == (original.get("content") or ""):
        return original
    return {**original, "content": message.content}
