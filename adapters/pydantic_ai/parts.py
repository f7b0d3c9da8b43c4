"""Check that the capability and the chat dialect render the same messages, for random plans."""

import copy
import random
from collections.abc import Sequence
from itertools import count, pairwise
from typing import Any

from contextrender_bridge.adapters.planning import RenderedHistory
from contextrender_bridge.adapters.pydantic_ai import _as_chat, _is_history, _render_messages
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects import MessagePlan
from contextrender_bridge.dialects.chat import ChatTranscript
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

IMAGE = BinaryContent(b"1", media_type="image/png")
SEARCH: Any = {"tool_call_id": "s", "tool_kind": "tool-search"}


def call(number: int) -> ToolCallPart:
    """Return a call. The first of three is signed, as Gemini signs parallel calls."""
    signature = {"thought_signature": "SIG0"} if number == 0 else None
    arguments = {"number": number}
    return ToolCallPart("look", arguments, f"call_{number}", provider_details=signature)


def result(number: int, content: Any, **fields: Any) -> ToolReturnPart:
    """Return the result of `call(number)`."""
    return ToolReturnPart("look", content, f"call_{number}", **fields)


MESSAGES: list[ModelMessage] = [
    ModelRequest(
        [SystemPromptPart("rule"), UserPromptPart(["a", IMAGE, CachePoint(), TextContent("b")])]
    ),
    ModelResponse(
        [
            *(ThinkingPart("t"), TextPart("x"), call(0), ThinkingPart("v"), TextPart("y")),
            *(call(1), ThinkingPart("w"), call(2)),
        ]
    ),
    ModelRequest(
        [result(0, "zero"), result(1, ["one", IMAGE]), result(2, {"two": 2}), UserPromptPart("c")]
    ),
    ModelResponse(
        [NativeToolCallPart("web", {}, "n"), NativeToolReturnPart("web", "", "n"), TextPart("z")]
    ),
    ModelRequest([UserPromptPart("d")]),
    ModelResponse([ToolCallPart("find", {"queries": ["q"]}, **SEARCH), call(3)]),
    ModelRequest(
        [
            ToolReturnPart("find", {"discovered_tools": []}, **SEARCH),
            result(3, "three", outcome="failed"),
        ]
    ),
    ModelResponse([ThinkingPart("u")]),
    ModelRequest([UserPromptPart("e")]),
    ModelResponse([call(4)]),
    ModelRequest([result(4, "four")]),
]


def any_plan(messages: Sequence[Json], choose: random.Random) -> MessagePlan:
    """Return a random plan. It shows each message or result with probability 1/2.

    A shown text may be the message's own (None), omitted (empty) or substituted. A result is shown
    together with its call.
    """
    entries: dict[int, Json] = {}
    for position, message in enumerate(messages):
        if choose.random() < 0.5:
            text = choose.choice([None, "", "cut"]) if message["content"] else None
            entries[position] = {"message": position, "calls": [], "text": text}
    callers = {
        call["id"]: (position, number)
        for position, message in enumerate(messages)
        for number, call in enumerate(message.get("tool_calls", ()))
    }
    for position, message in enumerate(messages):
        if position in entries and message["role"] == "tool":
            caller, number = callers[message["tool_call_id"]]
            only_calls = {"message": caller, "calls": [], "text": ""}
            entries.setdefault(caller, only_calls)["calls"].append(number)
            # The text of a shown result cannot be omitted.
            entries[position]["text"] = entries[position]["text"] or None
    for entry in entries.values():
        if choose.random() < 0.3:
            entry["arguments"] = ['{"cut":1}'] * len(entry["calls"])
    return MessagePlan(messages, entries.values())


def normalize(messages: Sequence[Json]) -> list[Json]:
    """Return the messages with texts before other content, and without empty messages.

    Adjacent assistant messages become one, as in the chat dialect.
    """
    new_messages: list[Json] = []
    for message in messages:
        content = message["content"] or ""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        words = " ".join(" ".join(part["text"].split()) for part in parts if part.get("text"))
        media = [part for part in parts if part["type"] != "text"]
        calls = message.get("tool_calls") or []
        if not (words or media or calls):
            continue
        if new_messages and message["role"] == "assistant" == new_messages[-1]["role"]:
            last = new_messages[-1]
            last["content"] = [" ".join([last["content"][0], words]).strip()]
            last["tool_calls"] = [*last["tool_calls"], *calls]
            continue
        new_messages.append({**message, "content": [words, *media], "tool_calls": calls})
    return new_messages


def main() -> None:
    """Compare the adapter's rendering with the chat dialect's, for 500 random plans.

    A plan that shows everything must return the adapter's own messages.
    """
    before = copy.deepcopy(MESSAGES)
    chat = ChatTranscript({"messages": [entry for m in MESSAGES for entry in _as_chat(m)]})
    full_plan = MessagePlan.full_history(chat.messages)
    unchanged = _render_messages(MESSAGES, RenderedHistory(full_plan, chat.positions), count())
    assert list(map(id, unchanged)) == list(map(id, MESSAGES))
    choose = random.Random(1)
    for _ in range(500):
        plan = any_plan(chat.messages, choose)
        prompt = _render_messages(MESSAGES, RenderedHistory(plan, chat.positions), count())
        prompt_messages = [entry for message in prompt for entry in _as_chat(message)]
        assert normalize(prompt_messages) == normalize(chat.apply(plan)["messages"])
        shown_ids = {id(part) for message in prompt for part in message.parts}
        parts = [part for message in MESSAGES for part in message.parts]
        foreign = [p for p in parts if not (_is_history(p) or isinstance(p, ThinkingPart))]
        assert all(id(part) in shown_ids for part in foreign)
        assert isinstance(prompt[-1], ModelRequest)
        calls = [part for m in prompt for part in m.parts if isinstance(part, ToolCallPart)]
        parallel = [part for part in calls if part.tool_call_id in ("call_0", "call_1", "call_2")]
        # The provider refuses thinking without what it led to.
        kinds = [type(part) for part in [*prompt[1].parts, ThinkingPart("end")]]
        assert (ThinkingPart, ThinkingPart) not in set(pairwise(kinds))
        signatures = [part.provider_details for part in parallel]
        assert signatures == [{"thought_signature": "SIG0"}, None, None][: len(parallel)]
    assert before == MESSAGES


if __name__ == "__main__":
    main()
