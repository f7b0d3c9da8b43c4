"""OpenAI Responses: `instructions`, and `input`, whose items are messages, calls and outputs.

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
    reusable_transcript,
)
from contextrender_bridge.dialects.call_pairing import answered_id, generated_id, ids_of_step
from contextrender_bridge.dialects.contents import (
    OMITTED,
    canonical_content,
    clean_text,
    full_text,
    with_text,
)
from contextrender_bridge.dialects.message_plan import MessagePlan, ShownParts
from contextrender_bridge.dialects.signatures import signature_of, with_signature

# By type of call: its canonical type, and the field with its arguments.
_CALLS = {"function_call": ("function", "arguments"), "custom_tool_call": ("custom", "input")}
# Calls of OpenAI's shell tools, which the agent runs: the field with their arguments.
_SHELLS = {"local_shell_call": "action", "shell_call": "action", "apply_patch_call": "operation"}
_OUTPUTS = tuple(f"{kind}_output" for kind in (*_CALLS, *_SHELLS))
# Tools that the provider runs. One item is the call and its result, which is in this field.
_RESULT_FIELDS = {
    "mcp_call": "output",
    "code_interpreter_call": "outputs",
    "file_search_call": "results",
}
_ROLES = ("system", "developer", "user", "assistant")
_UNKNOWN = -1


class _ItemReading(NamedTuple):
    """The result of reading an item.

    - `kind`: one of the kinds that `_kind` lists.
    - `message`: the position of the canonical message that the item was read into.
    - `call`: the number of a call among the message's calls; -1 for other items.
    - `group`: the number of the item's reasoning group (see `ResponsesTranscript`), -1 without one.
    """

    kind: str
    message: int = _UNKNOWN
    call: int = -1
    group: int = -1


class ResponsesTranscript(Transcript):
    """The transcript of a Responses request.

    Consecutive items of the model become one assistant message. Each output and each input message
    becomes one canonical message.

    A reasoning group is reasoning and the model's items after it, up to the next reasoning, output
    or input message. If any other item of a group is in the prompt, so is the group's reasoning,
    because the provider refuses one without the other.
    """

    alternates = False

    def __init__(self, body: Body, previous: Transcript | None = None) -> None:
        """Read `instructions` and `input`, which is a text or a list of items.

        Continue from `previous`, an earlier transcript, if it can be reused. Record the items of
        each reasoning group, and the first call of each message that has a provider's signature.
        """
        # Both fields may be a text, which is a message.
        field_messages = [
            {"role": role, "content": clean_text(text)}
            for role, text in (
                ("system", body.get("instructions") or None),
                ("user", body.get("input")),
            )
            if isinstance(text, str)
        ]
        earlier = reusable_transcript(previous, ResponsesTranscript, field_messages)
        super().__init__(body, "input", earlier, field_messages)
        self._readings: list[_ItemReading] = (
            earlier._readings[: self._read_count] if earlier else []
        )
        self._group: int = earlier._group if earlier else 0
        # The content of the assistant message that the next item of the model belongs to. None if
        # that item begins another message.
        self._answer_content: list[Any] | None = None
        if not earlier:
            self.messages += field_messages  # They come from no item.
            self._finish_item(NO_ITEM, is_always_sent=False)
        # The reasoning items of each group, and the groups that also have other items.
        self._reasoning_items: dict[int, list[int]] = (
            dict(earlier._reasoning_items) if earlier else {}
        )
        self._groups_with_items: set[int] = set(earlier._groups_with_items) if earlier else set()
        # By message: the number of its first signed call, and the signature with its path.
        self._signed: dict[int, tuple[int, Any]] = dict(earlier._signed) if earlier else {}
        for index, item in enumerate(self._new_items, self._read_count):
            reading = self._read(item, index)
            self._readings.append(reading)
            self._add_to_group(reading, index)
            self._finish_item(index, is_always_sent=reading.kind == "other")
        # The volatile items at the end, from `_end` on, are always sent and not read.
        self._readings += [_ItemReading("other")] * (len(self._items) - self._end)
        if self._answer_content is not None:
            # The next request's first new item may belong to the model's last message, which would
            # change. Such a history is read again from its start.
            self.stable_count = 0

    def _add_to_group(self, reading: _ItemReading, index: int) -> None:
        """Record the item with number `index` in its reasoning group, if it has one."""
        if reading.kind == "reasoning":
            group_items = self._reasoning_items.get(reading.group, [])
            # A new list, because an earlier transcript may have the old one.
            self._reasoning_items[reading.group] = [*group_items, index]
        elif reading.group >= 0:
            self._groups_with_items.add(reading.group)

    def apply(self, plan: MessagePlan) -> Json:
        """Return the body with only the items that the plan shows, and the reasoning before them.

        Omit reasoning only if its group has other items and all of these are omitted.
        """
        if not self._items:
            return dict(self._body)
        # Collect the shown items by number, and the reasoning groups that they belong to.
        substituted: set[int] = set()  # messages whose substitute text is already in an item
        shown_items: dict[int, Any] = {}
        # Groups with nothing but reasoning are always shown.
        shown_groups = self._reasoning_items.keys() - self._groups_with_items
        remaining = self._remaining_items(plan)
        parts = plan.parts({self._readings[index].message for index in remaining} - {_UNKNOWN})
        for index in remaining:
            item, reading = self._items[index], self._readings[index]
            if reading.kind == "reasoning":
                continue
            shown_item = item
            if reading.kind != "other":
                shown_item = _shown_item(item, reading, parts[reading.message], substituted)
            if shown_item is not OMITTED:
                shown_items[index] = shown_item
                shown_groups.add(reading.group)
        # Add the reasoning of the shown groups.
        for group in shown_groups:
            for index in self._reasoning_items.get(group, ()):
                shown_items[index] = self._items[index]
        self._move_signatures(shown_items)
        return {**self._body, "input": [shown_items[index] for index in sorted(shown_items)]}

    def _move_signatures(self, shown_items: dict[int, Any]) -> None:
        """Give the first shown call of each message the signature of an omitted call before it.

        Gemini signs only the first call of a message, and refuses a first call without a signature.
        `shown_items` maps item numbers to items; it is changed in place.
        """
        if not self._signed:
            return
        # Of each message, only the first shown call is checked.
        checked_messages: set[int] = set()
        for index in sorted(shown_items):
            reading = self._readings[index]
            if reading.kind != "call" or reading.message in checked_messages:
                continue
            checked_messages.add(reading.message)
            if reading.message not in self._signed or signature_of(shown_items[index]):
                continue
            signed_call, (path, signature) = self._signed[reading.message]
            if signed_call < reading.call:
                shown_items[index] = with_signature(shown_items[index], path, signature)

    def _belongs_to_answer(self, message: int, last: int) -> bool:
        """Return whether a message belongs to the same answer as the message after it.

        It does if it is a message of the model, or the result of a tool that the provider ran,
        because an agent's result or a user's message separates answers. `last` is not needed.
        """
        role = self.messages[message]["role"]
        if role == "tool":
            return self._results[message]["type"] in _RESULT_FIELDS
        return bool(role == "assistant")

    def result(self, message: int) -> Any:
        """Return the original content of the result at position `message`.

        It is the item's field `output`. For `shell_call` and the provider's own tools, it is a text
        made from the field with the result.
        """
        item = self._results[message]
        if item["type"] in _RESULT_FIELDS:
            return full_text(item.get(_RESULT_FIELDS[item["type"]]))
        output = item.get("output")
        return full_text(output) if item["type"] == "shell_call_output" else output

    def _read(self, item: Any, index: int) -> _ItemReading:
        """Read an item into the canonical messages, and return how it was read.

        Items of the model are added to its current message. Any other item that can be read becomes
        a message of its own.
        """
        # Context that OpenClaw inserts into every request is always sent, and never recorded.
        kind = "other" if is_volatile(item) else _kind(item)
        if kind == "other":
            return _ItemReading("other", group=self._group)
        if kind == "reasoning":
            # Consecutive reasoning items are one group.
            follows_reasoning = bool(self._readings) and self._readings[-1].kind == "reasoning"
            if not follows_reasoning:
                self._group += 1
            return _ItemReading("reasoning", group=self._group)
        if kind == "text":
            return self._read_text(item)
        if kind == "call":
            return self._read_call(item)
        if kind == "provider_result":
            return self._read_provider_call(item)
        if kind == "result":
            return self._read_result(item, index)
        # The item is a message of the user or the system.
        self._end_answer()
        content = canonical_content(item.get("content"))
        self.messages.append({"role": item["role"], "content": content})
        return _ItemReading(kind, len(self.messages) - 1)

    def _read_text(self, item: Any) -> _ItemReading:
        """Add a text of the model to its current message."""
        position = self._answer_position()
        assert self._answer_content is not None
        content = canonical_content(item.get("content"))
        self._answer_content += content if isinstance(content, list) else [content or ""]
        self.messages[position]["content"] = canonical_content(self._answer_content)
        return _ItemReading("text", position, group=self._group)

    def _read_call(self, item: Any) -> _ItemReading:
        """Add a call to the model's current message."""
        position = self._answer_position()
        calls = self.messages[position].setdefault("tool_calls", [])
        number = len(calls)
        calls.append(_call(item, generated_id(position, number)))
        if signature := signature_of(item):
            self._signed.setdefault(position, (number, signature))
        return _ItemReading("call", position, number, self._group)

    def _read_result(self, item: Any, index: int) -> _ItemReading:
        """Read an output as a result, and end the model's current message.

        `index` is the item's number. An output that answers no call cannot be read.
        """
        # The output may have no call id. Then find its call, but none that a later output names.
        later_ids = ids_of_step(self._items[index + 1 : self._end], "call_id")
        call_id = answered_id(self.messages, _call_id(item), item.get("name"), later_ids)
        if not call_id:
            return _ItemReading("other", group=self._group)
        self._end_answer()
        return _ItemReading("result", self._add_result(item, call_id, item.get("output")))

    def _read_provider_call(self, item: Any) -> _ItemReading:
        """Read a call and its result from one item, and end the model's current message.

        Add the call to that message, and the result as a message of its own.
        """
        # All fields of the item but its result, type and id are the call's arguments.
        calls = self.messages[self._answer_position()].setdefault("tool_calls", [])
        not_arguments = (*_RESULT_FIELDS.values(), "type", "id")
        arguments = {key: item[key] for key in item if key not in not_arguments}
        name = item["name"] if isinstance(item.get("name"), str) else item["type"]
        body = {"name": clean_text(name), "arguments": clean_text(json.dumps(arguments))}
        call_id = clean_text(item["id"])
        calls.append({"id": call_id, "type": "function", "function": body})
        self._answer_content = None
        result = self._add_result(item, call_id, item.get(_RESULT_FIELDS[item["type"]]))
        return _ItemReading("provider_result", result, group=self._group)

    def _end_answer(self) -> None:
        """Let the model's next item begin another assistant message and another group."""
        self._answer_content = None
        self._group += 1

    def _answer_position(self) -> int:
        """Return the position of the model's current message; append one if there is none."""
        if self._answer_content is None:
            self._answer_content = []
            self.messages.append({"role": "assistant", "content": None})
        return len(self.messages) - 1


RESPONSES = Dialect("input", ResponsesTranscript)


def _shown_item(item: Any, reading: _ItemReading, part: ShownParts, substituted: set[int]) -> Any:
    """Return the item as the plan shows it, or OMITTED.

    `part` says what the plan shows of the item's message. If the item's message has a substitute
    text, the message's first text item gets this text, and its other text items are omitted.
    `substituted` are the messages whose first text item got the text already; this function adds
    the message to it.
    """
    if reading.kind == "call":
        if reading.call not in part.calls:
            return OMITTED
        arguments = part.calls[reading.call]
        if arguments is None or item["type"] in _SHELLS:
            return item  # The provider accepts calls of its shell tools only unchanged.
        key = "arguments" if "arguments" in item else "input"
        return {**item, key: arguments}
    if not part.is_shown:
        return OMITTED
    text = part.text
    if text is None:
        return item
    if reading.kind == "provider_result":
        # Of the provider's own tools, the API accepts another text only for MCP.
        return {**item, "output": text} if item["type"] == "mcp_call" else item
    if reading.kind == "result":
        return {**item, "output": _output_with(item, text)}
    if not text or reading.message in substituted:
        return OMITTED
    substituted.add(reading.message)
    # The item is a `text` of the model, or an `input` of the user or the system.
    kind = "output_text" if reading.kind == "text" else "input_text"
    return {**item, "content": with_text(item.get("content"), text, kind)}


def _kind(item: Any) -> str:
    """Return the kind of an item.

    - `input`: a message of the user or the system
    - `text`: a message of the model
    - `reasoning`
    - `call`, `result`: a call that the agent runs, and its output
    - `provider_result`: a call that the provider ran, with its result in the same item
    - `other`: an item that cannot be read
    """
    if not isinstance(item, Mapping):
        return "other"
    # A message may omit its type.
    type_name = item.get("type", "message")
    if not isinstance(type_name, str):
        return "other"
    if type_name == "reasoning":
        return "reasoning"
    if type_name == "message" and item.get("role") in _ROLES:
        if not isinstance(item.get("content"), (str, list)):
            return "other"
        return "text" if item["role"] == "assistant" else "input"
    if type_name in _RESULT_FIELDS:
        has_result = item.get(_RESULT_FIELDS[type_name]) is not None
        return "provider_result" if has_result and _is_text(item.get("id")) else "other"
    # What remains are the agent's calls and their outputs, which need a valid call id or none.
    if not isinstance(_call_id(item), (str, type(None))):
        return "other"
    if type_name in _OUTPUTS:
        return "result"
    return "call" if _is_call(item, type_name) else "other"


def _is_call(item: Mapping[str, Any], type_name: str) -> bool:
    """Return whether an item is a call that the agent runs, with a valid name and arguments."""
    if type_name in _SHELLS:
        return isinstance(item.get(_SHELLS[type_name]), Mapping)
    if type_name not in _CALLS:
        return False
    _, arguments = _CALLS[type_name]
    return isinstance(item.get("name"), str) and isinstance(item.get(arguments), str)


def _call_id(item: Mapping[str, Any]) -> Any:
    """Return an item's call id. An output of a local shell may have it in `id`."""
    call_id = item.get("call_id")
    if not call_id and item.get("type") == "local_shell_call_output":
        return item.get("id")
    return call_id or None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _output_with(item: Mapping[str, Any], text: str) -> Any:
    """Return an item's output with `text` instead of its own text."""
    output = item.get("output")
    if item["type"] != "shell_call_output" or not isinstance(output, list):
        return with_text(output, text, "input_text")
    first = output[0] if output and isinstance(output[0], Mapping) else {}
    return [{**first, "stdout": text, "stderr": ""}]


def _call(item: Mapping[str, Any], default_id: str) -> Json:
    """Return the canonical call of an item. It has `default_id` if the item has no call id."""
    id = clean_text(_call_id(item) or default_id)
    if item["type"] in _SHELLS:
        arguments = clean_text(json.dumps(item[_SHELLS[item["type"]]]))
        body = {"name": item["type"].removesuffix("_call"), "arguments": arguments}
        return {"id": id, "type": "function", "function": body}
    kind, argument = _CALLS[item["type"]]
    body = {"name": clean_text(item["name"]), argument: clean_text(item[argument])}
    return {"id": id, "type": kind, kind: body}
