"""Recall in OpenAI Responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    Turn,
    added,
    moved,
)

_PROVIDERS = (
    "code_interpreter_call",
    "file_search_call",
    "image_generation_call",
    "mcp_call",
    "web_search_call",
)


class ResponsesFormat(Format):
    """`tools`, `function_call` and `function_call_output` items."""

    tool: ClassVar[Json] = {
        "type": "function",
        "name": NAME,
        "description": DESCRIPTION,
        "parameters": PARAMETERS,
        "strict": False,
    }

    def offers(self, body: Mapping[str, Any]) -> bool:
        """Only where the provider keeps nothing: what it kept would differ from what is sent."""
        wanted = body.get("store") is False and body.get("tool_choice") != "none"
        return wanted and super().offers(body)

    def turn(self, reply: Mapping[str, Any]) -> Turn:
        """Of the reply's output."""
        items = reply.get("output") or []
        ours = [Recall(i["call_id"], i.get("arguments") or "") for i in items if _is_ours(i)]
        return Turn(ours, len(ours) < sum(map(_is_call, items)), list(items))

    def without(self, reply: Json) -> Json:
        """The output but for our calls."""
        return {**reply, "output": [item for item in reply["output"] if not _is_ours(item)]}

    def whole(self, events: Sequence[Json]) -> Json:
        """The finished items: not every provider tells them again at the end."""
        items = [d["item"] for d in events if d.get("type") == "response.output_item.done"]
        told = [data["response"] for data in events if isinstance(data.get("response"), dict)]
        return {"output": items, "usage": (told[-1].get("usage") if told else None) or {}}

    def events_without(self, events: Sequence[Event], used: Json) -> Iterator[bytes]:
        """Events of the other items, which move up; all are numbered anew."""
        told = [event.data or {} for event in events]
        ours = {data["output_index"] for data in told if _is_ours(data.get("item"))}
        gone = 0
        for event, data in zip(events, told, strict=True):
            if data.get("output_index") in ours:
                gone += 1
                continue
            changes: Json = {}
            if ours and isinstance(data.get("output_index"), int):
                changes["output_index"] = moved(data["output_index"], ours)
            if isinstance(response := data.get("response"), dict):
                changes["response"] = self.without({"output": [], **response})
                if response.get("usage"):
                    changes["response"]["usage"] = added(used, response["usage"])
            if gone and "sequence_number" in data:
                changes["sequence_number"] = data["sequence_number"] - gone
            yield rewritten(event, {**data, **changes}) if changes else event.raw

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


def _is_call(item: Any) -> bool:
    """Whether the agent has to answer it; some tools are the provider's own."""
    kind = item.get("type") if isinstance(item, Mapping) else None
    return isinstance(kind, str) and kind.endswith("_call") and kind not in _PROVIDERS


def _is_ours(item: Any) -> bool:
    found = isinstance(item, Mapping) and item.get("type") == "function_call"
    return found and item.get("name") == NAME
