"""OpenAI Responses: `instructions`, and `input` items with calls and outputs of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from contextrender_bridge.dialects.base import Body, Json, Transcript
from contextrender_bridge.dialects.contents import (
    GONE,
    canonical_content,
    clean_text,
    history_end,
    is_volatile,
    with_text,
)
from contextrender_bridge.dialects.plan import Plan

_CALLS = {"function_call": ("function", "arguments"), "custom_tool_call": ("custom", "input")}
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
_ROLES = frozenset({"system", "developer", "user", "assistant"})
_UNKNOWN = -1


class _Part(NamedTuple):
    """What an item is of the canonical transcript.

    `group` numbers the reasoning that led to a model's items: it stays while any of them does.
    """

    kind: str
    message: int = _UNKNOWN
    call: int = -1
    group: int = -1


class ResponsesTranscript:
    """A run of model items is one assistant message; each output and input message is its own."""

    def __init__(self, body: Body) -> None:
        """Reads `instructions` and `input`."""
        self._body = body
        items = body.get("input")
        self._items: Sequence[Any] = items if isinstance(items, list) else []
        self.messages: list[Json] = []
        self._parts: list[_Part] = []
        self._results: dict[int, Json] = {}
        self._group = 0
        self._run: list[Any] | None = None
        if isinstance(instructions := body.get("instructions"), str) and instructions:
            self.messages.append({"role": "system", "content": clean_text(instructions)})
        if isinstance(items, str):
            self.messages.append({"role": "user", "content": clean_text(items)})
        end = history_end(self._items)
        for index, item in enumerate(self._items):
            self._parts.append(self._read(item) if index < end else _Part("other"))

    def apply(self, plan: Plan) -> Json:
        """The body with only the items that the plan shows."""
        if not self._items:
            return dict(self._body)
        written: set[int] = set()
        left = [
            item if part.kind == "reasoning" else _applied(item, part, plan, written)
            for item, part in zip(self._items, self._parts, strict=True)
        ]
        led_to: dict[int, bool] = {}
        for item, part in zip(left, self._parts, strict=True):
            if part.group >= 0 and part.kind != "reasoning":
                led_to[part.group] = led_to.get(part.group, False) or item is not GONE
        kept = [
            item
            for item, part in zip(left, self._parts, strict=True)
            if item is not GONE and (part.kind != "reasoning" or led_to.get(part.group, True))
        ]
        return {**self._body, "input": kept}

    def result(self, message: int) -> Any:
        """The `output` of the item."""
        return self._results[message].get("output")

    def _read(self, item: Any) -> _Part:
        # It stays behind the user's latest message while calls and outputs follow.
        kind = "other" if is_volatile(item) else _kind(item)
        if kind == "other":
            return _Part("other", group=self._group)
        if kind == "reasoning":
            self._group += 1 if not self._parts or self._parts[-1].kind != "reasoning" else 0
            return _Part("reasoning", group=self._group)
        if kind == "spoken":
            place = self._place()
            assert self._run is not None
            content = canonical_content(item.get("content"))
            self._run += content if isinstance(content, list) else [content or ""]
            self.messages[place]["content"] = canonical_content(self._run)
            return _Part(kind, place, group=self._group)
        if kind == "call":
            calls = self.messages[self._place()].setdefault("tool_calls", [])
            calls.append(_call(item))
            return _Part(kind, self._place(), len(calls) - 1, self._group)
        self._run = None
        self._group += 1
        place = len(self.messages)
        if kind == "result":
            self._results[place] = item
            content = canonical_content(item.get("output"))
            call_id = clean_text(item["call_id"])
            self.messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
        else:
            content = canonical_content(item.get("content"))
            self.messages.append({"role": item["role"], "content": content})
        return _Part(kind, place)

    def _place(self) -> int:
        """The position of the assistant message that the current run of model items is."""
        if self._run is None:
            self._run = []
            self.messages.append({"role": "assistant", "content": None})
        return len(self.messages) - 1


class _Responses:
    def read(self, body: Body) -> Transcript:
        return ResponsesTranscript(body)


RESPONSES = _Responses()


def _applied(item: Any, part: _Part, plan: Plan, written: set[int]) -> Any:
    """The item, shortened if the plan says so, or GONE. `written`: messages whose text is there."""
    if part.kind == "other":
        return item
    if part.kind == "call":
        return item if plan.shows_call(part.message, part.call) else GONE
    if not plan.shows(part.message):
        return GONE
    text = plan.text(part.message)
    if text is None:
        return item
    if part.kind == "result":
        return {**item, "output": with_text(item.get("output"), text, "input_text")}
    if not text or part.message in written:
        return GONE
    written.add(part.message)
    kind = "output_text" if part.kind == "spoken" else "input_text"
    return {**item, "content": with_text(item.get("content"), text, kind)}


def _kind(item: Any) -> str:
    if not isinstance(item, Mapping):
        return "other"
    kind = item.get("type", "message")
    if kind == "reasoning":
        return "reasoning"
    if kind == "message" and item.get("role") in _ROLES:
        if not isinstance(item.get("content"), (str, list)):
            return "other"
        return "spoken" if item["role"] == "assistant" else "input"
    if not (isinstance(item.get("call_id"), str) and item["call_id"]):
        return "other"
    if kind in _OUTPUTS:
        return "result"
    known = kind in _CALLS and isinstance(item.get("name"), str)
    return "call" if known and isinstance(item.get(_CALLS[kind][1]), str) else "other"


def _call(item: Mapping[str, Any]) -> Json:
    kind, argument = _CALLS[item["type"]]
    body = {"name": clean_text(item["name"]), argument: clean_text(item[argument])}
    return {"id": clean_text(item["call_id"]), "type": kind, kind: body}
