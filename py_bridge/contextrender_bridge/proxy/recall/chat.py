"""Recall in chat completions."""

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


class ChatFormat(Format):
    """`tools`, `tool_calls` and `tool` messages."""

    tool: ClassVar[Json] = {
        "type": "function",
        "function": {"name": NAME, "description": DESCRIPTION, "parameters": PARAMETERS},
    }

    def offers(self, body: Mapping[str, Any]) -> bool:
        """Not where the agent wants no tool, or several replies at once."""
        wanted = body.get("tool_choice") != "none" and body.get("n") in (None, 1)
        return wanted and super().offers(body)

    def turn(self, reply: Mapping[str, Any]) -> Turn:
        """Of the first choice."""
        choices = reply.get("choices") or [{}]
        message = choices[0].get("message") or {}
        calls = message.get("tool_calls") or []
        ours = [call for call in calls if _is_ours(call)]
        found = [Recall(call["id"], call["function"].get("arguments") or "") for call in ours]
        return Turn(found, len(ours) < len(calls), [message])

    def without(self, reply: Json) -> Json:
        """The first choice's calls but for ours; a reply of only ours ends as text does."""
        choice = reply["choices"][0]
        message = dict(choice["message"])
        left = [call for call in message["tool_calls"] if not _is_ours(call)]
        if left:
            changed = {**choice, "message": {**message, "tool_calls": left}}
        else:
            del message["tool_calls"]
            message["content"] = message.get("content") or ""
            changed = {**choice, "message": message, "finish_reason": "stop"}
        return {**reply, "choices": [changed, *reply["choices"][1:]]}

    def whole(self, events: Sequence[Json]) -> Json:
        """One choice's texts and calls."""
        message: Json = {"role": "assistant", "content": None}
        calls: dict[int, Json] = {}
        used: Json = {}
        for event in events:
            used = event.get("usage") or used
            delta = _delta(event)
            for name in ("content", "reasoning_content"):
                if isinstance(delta.get(name), str):
                    message[name] = (message.get(name) or "") + delta[name]
            for entry in delta.get("tool_calls") or ():
                told = entry.get("function") or {}
                body = {"name": told.get("name"), "arguments": ""}
                new = {"id": entry.get("id"), "type": "function", "function": body}
                call = calls.setdefault(entry.get("index", 0), new)
                call["function"]["arguments"] += told.get("arguments") or ""
        called = {"tool_calls": list(calls.values())} if calls else {}
        return {"choices": [{"message": {**message, **called}}], "usage": used}

    def events_without(self, events: Sequence[Event], used: Json) -> Iterator[bytes]:
        """Chunks without pieces of our calls; a reply of only ours ends as text does."""
        opened = [
            entry
            for event in events
            for entry in _delta(event.data or {}).get("tool_calls") or ()
            if (entry.get("function") or {}).get("name")
        ]
        calls = {entry.get("index", 0) for entry in opened}
        ours = {entry.get("index", 0) for entry in opened if _is_ours(entry)}
        for event in events:
            data = event.data or {}
            told: Json = {}
            if data.get("usage") and used:
                told["usage"] = added(used, data["usage"])
            delta = _delta(data)
            entries = delta.get("tool_calls") or []
            left = [one for one in entries if one.get("index", 0) not in ours]
            stops = bool(ours) and ours == calls and _reason(data) == "tool_calls"
            if ours and (entries or stops):
                pieces = [{**one, "index": moved(one.get("index", 0), ours)} for one in left]
                changed = {key: delta[key] for key in delta if key != "tool_calls"}
                changed |= {"tool_calls": pieces} if pieces else {}
                reason = "stop" if stops else _reason(data)
                if not (changed or reason or told):
                    continue
                choice = {**data["choices"][0], "delta": changed, "finish_reason": reason}
                told["choices"] = [choice]
            yield rewritten(event, {**data, **told}) if told else event.raw

    def goes_on(self, body: Json, turn: Turn, answers: Sequence[Answer]) -> Json:
        """The model's message, and a result for each of its calls."""
        results = [
            {"role": "tool", "tool_call_id": answer.recall.id, "content": answer.content}
            for answer in answers
        ]
        return {**body, "messages": [*body["messages"], *turn.said, *results]}


def _delta(event: Mapping[str, Any]) -> Json:
    choices = event.get("choices")
    return (choices[0].get("delta") or {}) if choices else {}


def _reason(event: Mapping[str, Any]) -> Any:
    choices = event.get("choices")
    return choices[0].get("finish_reason") if choices else None


def _is_ours(call: Any) -> bool:
    return isinstance(call, Mapping) and (call.get("function") or {}).get("name") == NAME
