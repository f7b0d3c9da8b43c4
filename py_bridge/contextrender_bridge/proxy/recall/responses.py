"""Recall in OpenAI Responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

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

_PROVIDERS = frozenset(
    {
        "code_interpreter_call",
        "file_search_call",
        "image_generation_call",
        "mcp_call",
        "web_search_call",
    }
)
_BEGINNINGS = frozenset({"response.created", "response.in_progress", "response.queued"})


class ResponsesFormat(Format):
    """`tools`, `function_call` and `function_call_output` items."""

    TOOL: ClassVar[Json] = {
        "type": "function",
        "name": NAME,
        "description": DESCRIPTION,
        "parameters": PARAMETERS,
        "strict": False,
    }

    def offers(self, body: Mapping[str, Any]) -> bool:
        """Only where the provider keeps nothing: what it kept would differ from what is sent."""
        wanted = body.get("store") is False and body.get("tool_choice") != "none"
        return wanted and has_tool_list(body)

    def turn(self, reply: Mapping[str, Any]) -> Turn:
        """Of the reply's output."""
        return _turn(reply.get("output") or [])

    def without(self, reply: Json) -> Json:
        """The output but for our calls."""
        return {**reply, "output": [item for item in reply["output"] if not _is_ours(item)]}

    def stream(self, sent: Streamed, *, final: bool) -> Stream:
        """Reads events."""
        return _ResponsesStream(sent, final=final)

    def goes_on(self, body: Json, turn: Turn, answers: Sequence[Answer]) -> Json:
        """The model's items, and an output for each of its calls."""
        given = body["input"]
        items = given if isinstance(given, list) else [{"role": "user", "content": given}]
        outputs = [
            {
                "type": "function_call_output",
                "call_id": answer.recall.id,
                "output": answer.content,
            }
            for answer in answers
        ]
        return {**body, "input": [*items, *turn.said, *outputs]}


class _ResponsesStream(Stream):
    def __init__(self, sent: Streamed, *, final: bool) -> None:
        super().__init__(sent, final=final)
        self._earlier = list(sent.items)
        self._said: list[Json] = []

    def read(self, event: Event) -> None:
        data = event.data or {}
        kind, index = data.get("type", ""), data.get("output_index")
        if kind in _BEGINNINGS and self._goes_before:
            return
        if kind == "response.output_item.added":
            self._begin(data["output_index"], data["item"])
        elif kind == "response.output_item.done":
            self._said.append(data["item"])
        if index in self._left_out:
            return
        changes: Json = {}
        blocks, item = 0, None
        if isinstance(index, int):
            blocks = self.moved(index) + 1
            if blocks != index + 1:
                changes["output_index"] = blocks - 1
            item = data["item"] if kind == "response.output_item.done" else None
        elif isinstance(data.get("response"), dict):
            changes = self._told(data["response"])
        if (changes or self._left_out or self._goes_before) and "sequence_number" in data:
            changes["sequence_number"] = self.number
        self.put(rewritten(event, {**data, **changes}) if changes else event.raw, blocks, item)

    def _told(self, response: Json) -> Json:
        """What differs in an event with the response as a whole."""
        used = self.uses(response.get("usage"))
        if not (self._left_out or self._earlier or self.sent.used):
            return {}
        output = response.get("output") or []
        left = [*self._earlier, *(item for item in output if not _is_ours(item))]
        told = {"usage": used} if response.get("usage") else {}
        return {"response": {**response, "output": left, **told}}

    def end(self) -> None:
        self.turn = _turn(self._said)
        super().end()

    def _begin(self, index: int, item: Json) -> None:
        if _is_ours(item):
            self._left_out.add(index)
            self.turn.ours.append(Recall(item["call_id"], ""))
            self.calls_ours()
        elif _is_call(item):
            self.calls_other()
        elif item.get("type") == "reasoning":
            if self._goes_before:
                self._left_out.add(index)
        else:
            self.says()


def _turn(items: Sequence[Json]) -> Turn:
    ours = [Recall(i["call_id"], i.get("arguments") or "") for i in items if _is_ours(i)]
    return Turn(ours, len(ours) < sum(map(_is_call, items)), list(items))


def _is_call(item: Any) -> bool:
    """Whether the agent has to answer it; some tools are the provider's own."""
    kind = item.get("type") if isinstance(item, Mapping) else None
    return isinstance(kind, str) and kind.endswith("_call") and kind not in _PROVIDERS


def _is_ours(item: Any) -> bool:
    found = isinstance(item, Mapping) and item.get("type") == "function_call"
    return found and item.get("name") == NAME
