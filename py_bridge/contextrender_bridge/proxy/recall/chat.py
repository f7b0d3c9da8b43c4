"""Recall in chat completions."""

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

_SPOKEN = ("content", "reasoning_content", "reasoning", "refusal", "audio", "function_call")


class ChatFormat(Format):
    """`tools`, `tool_calls` and `tool` messages."""

    TOOL: ClassVar[Json] = {
        "type": "function",
        "function": {"name": NAME, "description": DESCRIPTION, "parameters": PARAMETERS},
    }

    def offers(self, body: Mapping[str, Any]) -> bool:
        """Not where the agent wants no tool, or several replies at once."""
        wanted = body.get("tool_choice") != "none" and body.get("n") in (None, 1)
        return wanted and has_tool_list(body)

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

    def stream(self, sent: Streamed, *, final: bool) -> Stream:
        """Reads chunks."""
        return _ChatStream(sent, final=final)

    def goes_on(self, body: Json, turn: Turn, answers: Sequence[Answer]) -> Json:
        """The model's message, and a result for each of its calls."""
        results = [
            {"role": "tool", "tool_call_id": answer.recall.id, "content": answer.content}
            for answer in answers
        ]
        return {**body, "messages": [*body["messages"], *turn.said, *results]}


class _ChatStream(Stream):
    def __init__(self, sent: Streamed, *, final: bool) -> None:
        super().__init__(sent, final=final)
        self._texts: dict[str, str] = {}
        self._ours: dict[int, Json] = {}

    def read(self, event: Event) -> None:
        if event.data and event.data.get("usage"):
            told = {**event.data, "usage": self.uses(event.data["usage"])}
            if self.sent.used:
                event = Event(rewritten(event, told), told)
        choices = event.data.get("choices") if event.data else None
        if not choices or event.data is None:
            self.put(event.raw)
            return
        choice = choices[0]
        delta = choice.get("delta") or {}
        entries = delta.get("tool_calls") or []
        left = [entry for entry in map(self._take, entries) if entry is not None]
        if left:
            self.calls_other()
        elif any(delta.get(name) for name in _SPOKEN):
            self.says()
        for name in ("content", "reasoning_content"):
            if isinstance(delta.get(name), str):
                self._texts[name] = self._texts.get(name, "") + delta[name]
        if left == entries and not self._ends_emptily(choice):
            self.put(event.raw)
            return
        changed = {**delta, "tool_calls": left}
        if not left:
            del changed["tool_calls"]
        reason = "stop" if self._ends_emptily(choice) else choice.get("finish_reason")
        if changed or reason or event.data.get("usage"):
            new = {**choice, "delta": changed, "finish_reason": reason}
            self.put(rewritten(event, {**event.data, "choices": [new]}))

    def end(self) -> None:
        self.turn.ours = [
            Recall(call["id"], call["function"]["arguments"]) for call in self._ours.values()
        ]
        message: Json = {"role": "assistant", "content": None, **self._texts}
        self.turn.said = [{**message, "tool_calls": list(self._ours.values())}]
        super().end()

    def _take(self, entry: Json) -> Json | None:
        """Keeps an entry of ours; of another's, what is sent on."""
        index, function = entry.get("index", 0), entry.get("function") or {}
        if function.get("name") == NAME:
            body = {"name": NAME, "arguments": ""}
            self._ours[index] = {"id": entry.get("id"), "type": "function", "function": body}
            self.turn.ours.append(Recall(str(entry.get("id")), ""))
            self.calls_ours()
        if index in self._ours:
            self._ours[index]["function"]["arguments"] += function.get("arguments") or ""
            return None
        before = sum(1 for ours in self._ours if ours < index)
        return {**entry, "index": index - before} if before else entry

    def _ends_emptily(self, choice: Json) -> bool:
        """Whether a reply ends for a call that is taken out."""
        ends = choice.get("finish_reason") == "tool_calls"
        return ends and bool(self._ours) and not self.turn.others


def _is_ours(call: Any) -> bool:
    return isinstance(call, Mapping) and (call.get("function") or {}).get("name") == NAME
