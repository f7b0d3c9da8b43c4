"""Recall in Anthropic Messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from contextrender_bridge.base import wire
from contextrender_bridge.base.wire import Json
from contextrender_bridge.proxy.events import Event, rewritten
from contextrender_bridge.proxy.recall.turns import (
    DESCRIPTION,
    NAME,
    PARAMETERS,
    Answer,
    Format,
    Recall,
    Turn,
    added,
    moved,
)

_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class MessagesFormat(Format):
    """`tools`, `tool_use` and `tool_result` blocks."""

    tool: ClassVar[Json] = {"name": NAME, "description": DESCRIPTION, "input_schema": PARAMETERS}

    def offers(self, body: Mapping[str, Any]) -> bool:
        """Not where the agent wants no tool."""
        choice = body.get("tool_choice")
        unwanted = isinstance(choice, Mapping) and choice.get("type") == "none"
        return not unwanted and super().offers(body)

    def turn(self, reply: Mapping[str, Any]) -> Turn:
        """Of the reply's blocks."""
        blocks = reply.get("content") or []
        calls = [block for block in blocks if block.get("type") == "tool_use"]
        ours = [
            Recall(call["id"], wire.dumps(call.get("input")).decode())
            for call in calls
            if call["name"] == NAME
        ]
        return Turn(ours, len(ours) < len(calls), list(blocks))

    def without(self, reply: Json) -> Json:
        """The blocks but for our calls; a reply of only ours ends as text does."""
        left = [block for block in reply["content"] if block.get("name") != NAME]
        ends = any(block.get("type") == "tool_use" for block in left)
        return {
            **reply,
            "content": left,
            "stop_reason": reply.get("stop_reason") if ends else "end_turn",
        }

    def whole(self, events: Sequence[Json]) -> Json:
        """The blocks in their order, and what was used by the last count."""
        blocks: dict[int, Json] = {}
        arguments: dict[int, str] = {}
        for data in events:
            kind, index = data.get("type"), data.get("index", 0)
            if kind == "content_block_start":
                blocks[index] = dict(data["content_block"])
            elif kind == "content_block_delta":
                delta = data["delta"]
                if delta.get("type") == "input_json_delta":
                    arguments[index] = arguments.get(index, "") + delta["partial_json"]
                else:
                    _extend(blocks[index], delta)
        for index, text in arguments.items():
            blocks[index]["input"] = _object(text)
        return {"content": [blocks[index] for index in sorted(blocks)], "usage": _usage(events)}

    def events_without(self, events: Sequence[Event], used: Json) -> Iterator[bytes]:
        """Events of the other blocks, which move up; a reply of only ours ends as text does."""
        told = [event.data or {} for event in events]
        calls = {
            data["index"]: data["content_block"].get("name") == NAME
            for data in told
            if data.get("type") == "content_block_start"
            and data["content_block"].get("type") == "tool_use"
        }
        ours = {index for index, is_ours in calls.items() if is_ours}
        for event, data in zip(events, told, strict=True):
            changes: Json = {}
            if data.get("type") == "message_delta":
                if ours and len(ours) == len(calls):
                    changes["delta"] = {**data["delta"], "stop_reason": "end_turn"}
                if used:
                    changes["usage"] = added(used, _usage(told))
            elif ours and "index" in data:
                if data["index"] in ours:
                    continue
                changes["index"] = moved(data["index"], ours)
            yield rewritten(event, {**data, **changes}) if changes else event.raw

    def goes_on(self, body: Json, turn: Turn, answers: Sequence[Answer]) -> Json:
        """The model's blocks, and a user's message with the results."""
        results = [
            {"type": "tool_result", "tool_use_id": answer.recall.id, "content": answer.content}
            for answer in answers
        ]
        said = {"role": "assistant", "content": turn.said}
        asked = {"role": "user", "content": results}
        return {**body, "messages": [*body["messages"], said, asked]}

    def content(self, header: str, original: Any) -> Any:
        """The original blocks, images included."""
        if isinstance(original, list):
            plain = [
                {key: block[key] for key in block if key != "cache_control"}
                if isinstance(block, dict)
                else block
                for block in original
            ]
            return [{"type": "text", "text": header}, *plain]
        return [{"type": "text", "text": f"{header}\n{original or ''}"}]

    def joined(self, contents: Sequence[Any]) -> Any:
        """All blocks."""
        return [block for content in contents for block in content]


def _extend(block: Json, delta: Json) -> None:
    kind = delta.get("type", "")
    if kind in _DELTAS:
        name = _DELTAS[kind]
        block[name] = block.get(name, "") + delta[name]
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta["citation"]]


def _usage(events: Sequence[Json]) -> Json:
    """As the beginning tells it, and the end over that."""
    found: Json = {}
    for data in events:
        holder = data.get("message") if data.get("type") == "message_start" else data
        found |= (holder or {}).get("usage") or {}
    return found


def _object(text: str) -> Any:
    try:
        return wire.loads(text) if text else {}
    except ValueError:
        return {}
