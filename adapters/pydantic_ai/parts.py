"""Of Pydantic AI's messages the capability leaves what a plan says; other parts all stay."""

import copy
import random
from collections.abc import Sequence
from itertools import count
from typing import Any

from contextrender_bridge.adapters.planning import RenderedHistory
from contextrender_bridge.adapters.pydantic_ai import _as_chat, _is_known, _left
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
    """A call."""
    return ToolCallPart("look", {"number": number}, f"call_{number}")


def found(number: int, content: Any, **others: Any) -> ToolReturnPart:
    """What came of it."""
    return ToolReturnPart("look", content, f"call_{number}", **others)


MESSAGES: list[ModelMessage] = [
    ModelRequest(
        [SystemPromptPart("rule"), UserPromptPart(["a", IMAGE, CachePoint(), TextContent("b")])]
    ),
    ModelResponse([ThinkingPart("t"), TextPart("x"), call(0), TextPart("y"), call(1), call(2)]),
    ModelRequest(
        [found(0, "zero"), found(1, ["one", IMAGE]), found(2, {"two": 2}), UserPromptPart("c")]
    ),
    ModelResponse(
        [NativeToolCallPart("web", {}, "n"), NativeToolReturnPart("web", "", "n"), TextPart("z")]
    ),
    ModelRequest([UserPromptPart("d")]),
    ModelResponse([ToolCallPart("find", {"queries": ["q"]}, **SEARCH), call(3)]),
    ModelRequest(
        [
            ToolReturnPart("find", {"discovered_tools": []}, **SEARCH),
            found(3, "three", outcome="failed"),
        ]
    ),
    ModelResponse([ThinkingPart("u")]),
    ModelRequest([UserPromptPart("e")]),
    ModelResponse([call(4)]),
    ModelRequest([found(4, "four")]),
]


def any_plan(messages: Sequence[Json], choose: random.Random) -> MessagePlan:
    """A plan that shows some of it, calls and results together."""
    shown: dict[int, Json] = {}
    for position, message in enumerate(messages):
        if choose.random() < 0.5:
            text = choose.choice([None, "", "cut"]) if message["content"] else None
            shown[position] = {"message": position, "calls": [], "text": text}
    callers = {
        call["id"]: (position, number)
        for position, message in enumerate(messages)
        for number, call in enumerate(message.get("tool_calls", ()))
    }
    for result, message in enumerate(messages):
        if result in shown and message["role"] == "tool":
            caller, number = callers[message["tool_call_id"]]
            silent = {"message": caller, "calls": [], "text": ""}
            shown.setdefault(caller, silent)["calls"].append(number)
            shown[result]["text"] = shown[result]["text"] or None
    return MessagePlan(messages, shown.values())


def plainly(messages: Sequence[Json]) -> list[Json]:
    """The messages with their words in one piece before other content; without empty ones.

    Neighbours that the assistant says are one, as the chat dialect joins them.
    """
    found: list[Json] = []
    for message in messages:
        content = message["content"] or ""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        words = " ".join(" ".join(part["text"].split()) for part in parts if part.get("text"))
        others = [part for part in parts if part["type"] != "text"]
        calls = message.get("tool_calls") or []
        if not (words or others or calls):
            continue
        if found and message["role"] == "assistant" == found[-1]["role"]:
            last = found[-1]
            last["content"] = [" ".join([last["content"][0], words]).strip()]
            last["tool_calls"] = [*last["tool_calls"], *calls]
            continue
        found.append({**message, "content": [words, *others], "tool_calls": calls})
    return found


def main() -> None:
    """Compares with what the chat dialect leaves of the same history."""
    before = copy.deepcopy(MESSAGES)
    chat = ChatTranscript({"messages": [said for m in MESSAGES for said in _as_chat(m)]})
    everything = _left(
        MESSAGES, RenderedHistory(MessagePlan.everything(chat.messages), chat.places), count()
    )
    assert list(map(id, everything)) == list(map(id, MESSAGES))
    choose = random.Random(1)
    for _ in range(500):
        plan = any_plan(chat.messages, choose)
        left = _left(MESSAGES, RenderedHistory(plan, chat.places), count())
        read = [said for message in left for said in _as_chat(message)]
        assert plainly(read) == plainly(chat.apply(plan)["messages"])
        staying = {id(part) for message in left for part in message.parts}
        parts = [part for message in MESSAGES for part in message.parts]
        others = [p for p in parts if not (_is_known(p) or isinstance(p, ThinkingPart))]
        assert all(id(part) in staying for part in others)
        assert isinstance(left[-1], ModelRequest)
    assert before == MESSAGES


if __name__ == "__main__":
    main()
