"""Recall in Anthropic Messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    Stream,
    Streamed,
    Turn,
    has_tool_list,
)

_THINKING = frozenset({"thinking", "redacted_thinking"})
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class MessagesFormat(Format):
    """`tools`, `tool_use` and `tool_result` blocks."""

    TOOL: ClassVar[Json] = {"name": NAME, "description": DESCRIPTION, "input_schema": PARAMETERS}

    def offers(self, body: Mapping[str, Any]) -> bool:
        """Not where the agent wants no tool."""
        choice = body.get("tool_choice")
        unwanted = isinstance(choice, Mapping) and choice.get("type") == "none"
        return not unwanted and has_tool_list(body)

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

    def stream(self, sent: Streamed, *, final: bool) -> Stream:
        """Reads events."""
        return _MessagesStream(sent, final=final)

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


class _MessagesStream(Stream):
    def __init__(self, sent: Streamed, *, final: bool) -> None:
        super().__init__(sent, final=final)
        self._blocks: dict[int, Json] = {}
        self._arguments: dict[int, str] = {}
        self._ours: set[int] = set()

    def read(self, event: Event) -> None:
        data = event.data or {}
        kind, index = data.get("type"), data.get("index", 0)
        if kind == "message_start":
            self.uses(data["message"].get("usage"))
        if kind == "message_delta":
            event = self._with_all_usage(event, data)
            data = event.data or {}
        if kind == "message_start" and self._goes_before:
            return
        if kind == "content_block_start":
            self._begin(index, data["content_block"])
        elif kind == "content_block_delta":
            self._extend(index, data["delta"])
        elif kind == "message_delta" and self._ours and not self.turn.others:
            stopped = {**data["delta"], "stop_reason": "end_turn"}
            self.put(rewritten(event, {**data, "delta": stopped}))
            return
        if "index" not in data:
            self.put(event.raw)
        elif index not in self._left_out:
            moved = self.moved(index)
            raw = event.raw if moved == index else rewritten(event, {**data, "index": moved})
            self.put(raw, moved + 1)

    def _with_all_usage(self, event: Event, data: Json) -> Event:
        told = {**data, "usage": self.uses(data.get("usage"))}
        return Event(rewritten(event, told), told) if self.sent.used else event

    def end(self) -> None:
        for index, text in self._arguments.items():
            self._blocks[index]["input"] = _object(text)
        self.turn.said = [self._blocks[index] for index in sorted(self._blocks)]
        self.turn.ours = [
            Recall(self._blocks[index]["id"], self._arguments.get(index, ""))
            for index in sorted(self._ours)
        ]
        super().end()

    def _begin(self, index: int, block: Json) -> None:
        self._blocks[index] = dict(block)
        kind = block.get("type")
        if kind == "tool_use":
            self._arguments[index] = ""
            if block.get("name") == NAME:
                self._ours.add(index)
                self._left_out.add(index)
                self.turn.ours.append(Recall(block["id"], ""))
                self.calls_ours()
            else:
                self.calls_other()
        elif kind in _THINKING:
            # A model checks its thinking; that of a second reply would not stand where it did.
            if self._goes_before:
                self._left_out.add(index)
        else:
            self.says()

    def _extend(self, index: int, delta: Json) -> None:
        block = self._blocks.get(index, {})
        kind = delta.get("type", "")
        if kind == "input_json_delta":
            self._arguments[index] = self._arguments.get(index, "") + delta["partial_json"]
        elif kind in _DELTAS:
            name = _DELTAS[kind]
            block[name] = block.get(name, "") + delta[name]
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]


def _object(text: str) -> Any:
    try:
        return wire.loads(text) if text else {}
    except ValueError:
        return {}
