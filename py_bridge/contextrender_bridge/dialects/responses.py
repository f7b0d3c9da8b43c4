"""OpenAI Responses: `instructions`, and `input` items with calls and outputs of their own.

Long because the API has many item types, and reading and applying must treat each alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.base import (
    NO_ITEM,
    Body,
    Dialect,
    Transcript,
    is_volatile,
    usable,
)
from contextrender_bridge.dialects.call_pairing import answered_id, ids_of_step, made_id
from contextrender_bridge.dialects.contents import (
    GONE,
    canonical_content,
    clean_text,
    whole_text,
    with_text,
)
from contextrender_bridge.dialects.message_plan import MessagePlan
from contextrender_bridge.dialects.signatures import signature_of, with_signature

_CALLS = {"function_call": ("function", "arguments"), "custom_tool_call": ("custom", "input")}
_SHELLS = {"local_shell_call": "action", "shell_call": "action", "apply_patch_call": "operation"}
_OUTPUTS = tuple(f"{kind}_output" for kind in (*_CALLS, *_SHELLS))
# Tools that the provider runs: call and result are one item, its result in this field.
_SERVED = {"mcp_call": "output", "code_interpreter_call": "outputs", "file_search_call": "results"}
_ROLES = ("system", "developer", "user", "assistant")
_UNKNOWN = -1


class _Part(NamedTuple):
    """What an item is of the canonical transcript.

    `group` numbers the reasoning that led to a model's items: it stays while any of them does.
    """

    kind: str
    message: int = _UNKNOWN
    call: int = -1
    group: int = -1


class ResponsesTranscript(Transcript):
    """A run of model items is one assistant message; each output and input message is its own."""

    alternates = False

    def __init__(self, body: Body, before: Transcript | None = None) -> None:
        spoken = [
            {"role": role, "content": clean_text(text)}
            for role, text in (
                ("system", body.get("instructions") or None),
                ("user", body.get("input")),
            )
            if isinstance(text, str)
        ]
        past = usable(before, ResponsesTranscript, spoken)
        super().__init__(body, "input", past, spoken)
        self._parts: list[_Part] = past._parts[: self._known] if past else []
        self._group: int = past._group if past else 0
        self._run: list[Any] | None = None
        self.messages += [] if past else spoken
        self._read_item(NO_ITEM, stays=False)
        # The reasoning of each group, and the groups that led to anything.
        self._reasons: dict[int, list[int]] = dict(past._reasons) if past else {}
        self._led: set[int] = set(past._led) if past else set()
        # The first call of each message that a provider signed, by message.
        self._signed: dict[int, tuple[int, Any]] = dict(past._signed) if past else {}
        for index, item in enumerate(self._fresh, self._known):
            part = self._read(item, index)
            self._parts.append(part)
            self._read_item(index, stays=part.kind == "other")
            if part.kind == "reasoning":
                self._reasons[part.group] = [*self._reasons.get(part.group, ()), index]
            elif part.group >= 0:
                self._led.add(part.group)
        self._parts += [_Part("other")] * (len(self._items) - self._end)
        if self._run is not None:
            # The model's message may go on with the next item.
            self.settled = 0

    def apply(self, plan: MessagePlan) -> Json:
        """The body with only the items that the plan shows."""
        if not self._items:
            return dict(self._body)
        written: set[int] = set()
        kept: dict[int, Any] = {}
        groups = self._reasons.keys() - self._led
        for index in self._staying(plan):
            item, part = self._items[index], self._parts[index]
            left = GONE if part.kind == "reasoning" else _applied(item, part, plan, written)
            if left is not GONE:
                kept[index] = left
                groups.add(part.group)
        for index in (one for group in groups for one in self._reasons.get(group, ())):
            kept[index] = self._items[index]
        self._sign(kept)
        return {**self._body, "input": [kept[index] for index in sorted(kept)]}

    def _sign(self, kept: dict[int, Any]) -> None:
        """Give the first call that stays of each message the signature that the first one had."""
        seen: set[int] = set()
        for index in sorted(kept) if self._signed else ():
            part = self._parts[index]
            if part.kind != "call" or part.message in seen:
                continue
            seen.add(part.message)
            number, found = self._signed.get(part.message, (part.call, None))
            if number < part.call and not signature_of(kept[index]):
                kept[index] = with_signature(kept[index], *found)

    def _belongs_to_answer(self, message: int, last: int) -> bool:
        """Return whether a message comes from the same run of the model's items as the next one."""
        said = self.messages[message]
        if said["role"] == "tool":
            return self._results[message]["type"] in _SERVED
        return bool(said["role"] == "assistant")

    def result(self, message: int) -> Any:
        """The `output` of the item; of a tool that the provider ran, as text."""
        item = self._results[message]
        if item["type"] in _SERVED:
            return whole_text(item.get(_SERVED[item["type"]]))
        output = item.get("output")
        return whole_text(output) if item["type"] == "shell_call_output" else output

    def _read(self, item: Any, index: int) -> _Part:
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
            calls.append(_call(item, made_id(self._place(), len(calls))))
            if found := signature_of(item):
                self._signed.setdefault(self._place(), (len(calls) - 1, found))
            return _Part(kind, self._place(), len(calls) - 1, self._group)
        if kind == "served":
            return self._read_served(item)
        answered: str | None = ""
        if kind == "result":
            later = ids_of_step(self._items[index + 1 : self._end], ("call_id",))
            answered = answered_id(self.messages, _call_id(item), item.get("name"), later)
            if not answered:
                return _Part("other", group=self._group)
        self._run = None
        self._group += 1
        if answered:
            return _Part(kind, self._add_result(item, answered, item.get("output")))
        content = canonical_content(item.get("content"))
        self.messages.append({"role": item["role"], "content": content})
        return _Part(kind, len(self.messages) - 1)

    def _read_served(self, item: Any) -> _Part:
        """A call and its result in one: what the model says next is another message."""
        calls = self.messages[self._place()].setdefault("tool_calls", [])
        asked = {key: item[key] for key in item if key not in (*_SERVED.values(), "type", "id")}
        name = item["name"] if isinstance(item.get("name"), str) else item["type"]
        body = {"name": clean_text(name), "arguments": clean_text(json.dumps(asked))}
        call_id = clean_text(item["id"])
        calls.append({"id": call_id, "type": "function", "function": body})
        self._run = None
        result = self._add_result(item, call_id, item.get(_SERVED[item["type"]]))
        return _Part("served", result, group=self._group)

    def _place(self) -> int:
        """The position of the assistant message that the current run of model items is."""
        if self._run is None:
            self._run = []
            self.messages.append({"role": "assistant", "content": None})
        return len(self.messages) - 1


RESPONSES = Dialect("input", ResponsesTranscript)


def _applied(item: Any, part: _Part, plan: MessagePlan, written: set[int]) -> Any:
    """The item, shortened if the plan says so, or GONE. `written`: messages whose text is there."""
    if part.kind == "other":
        return item
    if part.kind == "call":
        if not plan.shows_call(part.message, part.call):
            return GONE
        arguments = plan.arguments(part.message, part.call)
        key = "arguments" if "arguments" in item else "input"
        if arguments is None or item["type"] in _SHELLS:
            return item  # What a shell was asked, the provider takes back only as it was.
        return {**item, key: arguments}
    if not plan.shows(part.message):
        return GONE
    text = plan.text(part.message)
    if text is None:
        return item
    if part.kind == "served":
        return {**item, "output": text} if item["type"] == "mcp_call" else item
    if part.kind == "result":
        return {**item, "output": _output_with(item, text)}
    if not text or part.message in written:
        return GONE
    written.add(part.message)
    kind = "output_text" if part.kind == "spoken" else "input_text"
    return {**item, "content": with_text(item.get("content"), text, kind)}


def _kind(item: Any) -> str:
    if not isinstance(item, Mapping):
        return "other"
    kind = item.get("type", "message")
    if not isinstance(kind, str):
        return "other"
    if kind == "reasoning":
        return "reasoning"
    if kind == "message" and item.get("role") in _ROLES:
        if not isinstance(item.get("content"), (str, list)):
            return "other"
        return "spoken" if item["role"] == "assistant" else "input"
    if kind in _SERVED:
        served = _is_text(item.get("id")) and item.get(_SERVED[kind]) is not None
        return "served" if served else "other"
    if not isinstance(_call_id(item), (str, type(None))):
        return "other"
    if kind in _OUTPUTS:
        return "result"
    if kind in _SHELLS:
        return "call" if isinstance(item.get(_SHELLS[kind]), Mapping) else "other"
    known = kind in _CALLS and isinstance(item.get("name"), str)
    return "call" if known and isinstance(item.get(_CALLS[kind][1]), str) else "other"


def _call_id(item: Mapping[str, Any]) -> Any:
    """Outputs of local shells name their call by `id`."""
    is_shells = item.get("type") == "local_shell_call_output"
    return item.get("call_id") or (item.get("id") if is_shells else None)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _output_with(item: Mapping[str, Any], text: str) -> Any:
    """An output whose text is replaced."""
    output = item.get("output")
    if item["type"] != "shell_call_output" or not isinstance(output, list):
        return with_text(output, text, "input_text")
    first = output[0] if output and isinstance(output[0], Mapping) else {}
    return [{**first, "stdout": text, "stderr": ""}]


def _call(item: Mapping[str, Any], made: str) -> Json:
    name = clean_text(_call_id(item) or made)
    if item["type"] in _SHELLS:
        asked = clean_text(json.dumps(item[_SHELLS[item["type"]]]))
        body = {"name": item["type"].removesuffix("_call"), "arguments": asked}
        return {"id": name, "type": "function", "function": body}
    kind, argument = _CALLS[item["type"]]
    body = {"name": clean_text(item["name"]), argument: clean_text(item[argument])}
    return {"id": name, "type": kind, kind: body}
