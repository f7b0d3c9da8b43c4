"""OpenAI chat completions: `messages` with `tool_calls` and `tool` messages.

Long because it has the reading, the cleaning and the writing of one format.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.base import (
    Body,
    Dialect,
    NumberedItem,
    Transcript,
    reusable_transcript,
)
from contextrender_bridge.dialects.call_pairing import (
    PREFIX,
    answered_id,
    generated_id,
    ids_of_step,
)
from contextrender_bridge.dialects.contents import (
    canonical_content,
    clean_text,
    parts_of,
    with_text,
)
from contextrender_bridge.dialects.message_plan import MessagePlan, ShownParts
from contextrender_bridge.dialects.signatures import move_reasoning, move_signature

_ROLES = ("system", "developer", "user", "assistant", "tool")
_RESULT_ROLES = ("tool", "function")
_TEXT_ROLES = ("tool-call", "tool-response")
"""Roles of messages that hold calls and results as text (`dialects.observations`)."""
# The fields that canonical messages and their calls may have.
_TEXT_FIELDS = frozenset({"role", "content", "name"})
_ANSWER_FIELDS = frozenset({*_TEXT_FIELDS, "tool_calls"})
# Without `name`: some runtimes lose the tool's name when they resume a session.
_RESULT_FIELDS = frozenset({"role", "content", "tool_call_id"})
_CALL_FIELDS = frozenset({"id", "type", "function"})
_FUNCTION_FIELDS = frozenset({"name", "arguments"})


def check_messages(messages: Sequence[object]) -> None:
    """Raise InvalidRequest if an item is no chat message with a known role.

    The error has the position of the first such item.
    """
    if isinstance(messages, (str, bytes)) or not isinstance(messages, Sequence):
        kind = "a text" if isinstance(messages, str) else type(messages).__name__
        raise InvalidRequest(f"messages must be a list of chat messages, not {kind}")
    for position, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise InvalidRequest(f"message {position}: it is not a mapping", position=position)
        role = message.get("role")
        if role not in (*_ROLES, *_RESULT_ROLES, *_TEXT_ROLES):
            problem = "it has no role" if role is None else f"{role!r:.40} is not a role"
            raise InvalidRequest(f"message {position}: {problem}", position=position)


class ItemTranscript(Transcript):
    """A transcript in which each item is one chat message, unless it cannot be read.

    Messages that cannot be read, and volatile ones at the end (`is_volatile`), are always sent.
    """

    def __init__(self, body: Body, earlier: ItemTranscript | None) -> None:
        """Read `messages`, and continue from the transcript `earlier` if it is given."""
        super().__init__(body, "messages", earlier)
        self.positions: list[int | None] = earlier.positions[: self._read_count] if earlier else []
        """The position of each item's canonical message, None for an unread item."""
        for index, item in enumerate(self._new_items, self._read_count):
            position = len(self.messages)
            is_read = self._read(index, item)
            self.positions.append(position if is_read else None)
            (self._item_of if is_read else self._always_sent_items).append(index)
        self.positions += [None] * (len(self._items) - self._end)

    @abstractmethod
    def _read(self, index: int, item: Any) -> bool:
        """Append the message of the item with number `index`; return False if it is none."""

    @abstractmethod
    def _shown_items(self, plan: MessagePlan) -> list[NumberedItem]:
        """Return the items that the plan shows, as it shows them. Unread items are unchanged."""

    def apply(self, plan: MessagePlan) -> Json:
        """Return the body with only the messages and calls that the plan shows.

        Messages of the model that become neighbours are merged.
        """
        if not self._items:
            return dict(self._body)
        unread = {index for index, position in enumerate(self.positions) if position is None}
        messages = self._merge_neighbours(self._shown_items(plan), join_chat, unread)
        return {**self._body, "messages": messages}


class ChatTranscript(ItemTranscript):
    """The transcript of a chat request."""

    def __init__(self, body: Body, previous: Transcript | None = None) -> None:
        """Read `messages`. Continue from `previous`, an earlier transcript, if it can be reused."""
        super().__init__(body, reusable_transcript(previous, ChatTranscript))

    def _read(self, index: int, item: Any) -> bool:
        canonical = self._canonical(index, item)
        if canonical is not None:
            self.messages.append(canonical)
        return canonical is not None

    def _shown_items(self, plan: MessagePlan) -> list[NumberedItem]:
        shown_items: list[NumberedItem] = []
        parts = plan.parts(plan.remaining_messages())
        for index, (item, position) in enumerate(zip(self._items, self.positions, strict=True)):
            if position is None:
                shown_items.append((index, item))
            elif position in parts:
                shown_items.append((index, _shown_item(item, parts[position])))
        return shown_items

    def _canonical(self, index: int, item: Any) -> Json | None:
        """Return the message to record, with ids for calls and results that have none.

        `index` is the item's number. Return None if the item is no chat message, or if it is a
        result that answers no call.
        """
        if isinstance(item, dict) and item.get("role") in _RESULT_ROLES:
            if _is_number(item.get("tool_call_id")):
                item = {**item, "tool_call_id": str(item["tool_call_id"])}
            if self._is_paired_by_order(item):
                # Find the result's call by the order, but none that a later result names.
                later_ids = ids_of_step(self._items[index + 1 : self._end], "tool_call_id")
                tool = item.get("tool_name") or item.get("name")
                call_id = answered_id(self.messages, item.get("tool_call_id"), tool, later_ids)
                if not call_id:
                    return None
                item = {**item, "role": "tool", "tool_call_id": call_id}
            return canonical_message(item)
        return canonical_message(item, position=len(self.messages))

    def _is_paired_by_order(self, item: Json) -> bool:
        """Return whether a result must be paired with its call by their order.

        That is so if the result has no call id, or the calls before it had no ids. Such calls have
        generated ids, which begin with `PREFIX`.
        """
        call_id = item.get("tool_call_id")
        if not (isinstance(call_id, str) and call_id):
            return True
        for message in reversed(self.messages):
            if message.get("tool_calls"):
                return any(call["id"].startswith(PREFIX) for call in message["tool_calls"])
            if message["role"] != "tool":
                return False
        return False

    def result(self, message: int) -> Any:
        """Return the original content of the tool message at position `message`."""
        return self._items[self._item_of[message]].get("content")


CHAT = Dialect("messages", ChatTranscript)


def canonical_message(item: Any, position: int = 0) -> Json | None:
    """Return the message to record at this position; None if the item is no valid chat message.

    If `item` is canonical already, return `item` itself. Otherwise return a copy with only the
    recorded fields: role, content, name, calls and call id, with cleaned texts. `position` is part
    of generated call ids.
    """
    if not isinstance(item, dict):
        return None
    if _is_plain(item):
        return item
    # Check the role and the content, then copy the fields that this role may have.
    role, content = item.get("role"), item.get("content")
    if role not in _ROLES or not isinstance(content, (str, list, type(None))):
        return None
    message = {"role": role, "content": canonical_content(content)}
    if role == "tool":
        call_id = item.get("tool_call_id")
        if not isinstance(call_id, str) or not call_id:
            return None
        return {**message, "tool_call_id": clean_text(call_id)}
    if isinstance(item.get("name"), str):
        message["name"] = clean_text(item["name"])
    if role == "assistant" and (calls := _calls_of(item)):
        canonical_calls = _canonical_calls(calls, position)
        if canonical_calls is None:
            return None
        message["tool_calls"] = canonical_calls
    return message


def _calls_of(item: Mapping[str, Any]) -> Any:
    """Return a message's calls; older chat completions have one, in the field `function_call`."""
    if item.get("tool_calls"):
        return item["tool_calls"]
    function = item.get("function_call")
    return [{"type": "function", "function": function}] if isinstance(function, Mapping) else None


def join_chat(before: Json, after: Json) -> Json | None:
    """Merge two chat messages into the second one, which gets both texts.

    Drop the first message's other fields, such as its reasoning: they belong to an omitted step.
    Return None if the first message has calls.
    """
    if before.get("tool_calls") or before.get("function_call"):
        return None
    first, second = before.get("content"), after.get("content")
    if isinstance(first, list) or isinstance(second, list):
        content: Any = [*parts_of(first), *parts_of(second)]
    else:
        content = "\n\n".join(text for text in (first, second) if text) or None
    return {**after, "content": content}


def _shown_item(item: Json, part: ShownParts) -> Json:
    """Return the item as the prompt shows it.

    `part` says which of its text and calls are shown, and with which substitutes. Return `item`
    itself if it is shown unchanged.
    """
    calls = part.calls
    has_all_calls = len(calls) == part.call_count
    has_own_arguments = all(arguments is None for arguments in calls.values())
    has_own_text = part.is_shown and part.text is None
    if has_own_text and has_all_calls and has_own_arguments:
        return item
    # Copy the item, and replace its calls or its text.
    shown_item = dict(item)
    if not (has_all_calls and has_own_arguments):
        shown_item = _with_calls(shown_item, calls)
    if not has_own_text:
        content, own_content = part.text or "", item.get("content")
        if isinstance(own_content, list):
            content = with_text(own_content, content)
        # A message with nothing but calls has no content.
        shown_item["content"] = content if content or not calls else None
    return shown_item


def _with_calls(item: Json, arguments_of: Mapping[int, str | None]) -> Json:
    """Return the message with only the remaining calls.

    `arguments_of` maps the number of each remaining call to its substitute arguments, None for its
    own. If calls are omitted, their signature and their reasoning move to the first remaining call.
    """
    calls = item.get("tool_calls")
    if not calls:
        # The message has the field `function_call` of older chat completions, for one call.
        if not arguments_of:
            return {key: item[key] for key in item if key != "function_call"}
        return {**item, "function_call": _with_arguments(item["function_call"], arguments_of[0])}
    # Show the remaining calls, and move what belonged to the omitted ones.
    remaining = {n: _shown_call(calls[n], arguments) for n, arguments in arguments_of.items()}
    if remaining:
        remaining = move_signature(calls, remaining)
        message = {**item, "tool_calls": list(remaining.values())}
    else:  # Providers refuse an empty list of calls.
        message = {key: item[key] for key in item if key != "tool_calls"}
    if "reasoning_details" in item:
        omitted_ids = [call.get("id") for n, call in enumerate(calls) if n not in arguments_of]
        first_id = remaining[min(remaining)].get("id") if remaining else None
        message = move_reasoning(message, omitted_ids, first_id)
    return message


def _shown_call(call: Json, arguments: str | None) -> Json:
    """Return the call with these arguments, or unchanged if `arguments` is None."""
    if arguments is None:
        return call
    body = "custom" if call.get("type") == "custom" else "function"
    return {**call, body: _with_arguments(call[body], arguments)}


def _with_arguments(body: Json, arguments: str | None) -> Json:
    """Return a call's function with these arguments, or unchanged if `arguments` is None.

    If the function's own arguments are an object instead of a JSON text, set an object, too.
    """
    if arguments is None:
        return body
    key = "input" if "input" in body else "arguments"
    is_object = isinstance(body.get(key), Mapping)
    return {**body, key: json.loads(arguments) if is_object else arguments}


def _is_plain(item: Json) -> bool:
    """Return whether a message is certain to be canonical without any change.

    This is faster than a comparison with its canonical form. Return False in doubt, for example for
    a text that is not ASCII.
    """
    role, content = item.get("role"), item.get("content")
    if content is not None and not (isinstance(content, str) and content.isascii()):
        return False
    if role == "tool":
        call_id = item.get("tool_call_id")
        return isinstance(call_id, str) and call_id != "" and item.keys() <= _RESULT_FIELDS
    if role not in _ROLES or ("name" in item and not _is_ascii(item["name"])):
        return False
    if role != "assistant":
        return item.keys() <= _TEXT_FIELDS
    calls = item.get("tool_calls")
    return item.keys() <= _ANSWER_FIELDS and (calls is None or _are_plain(calls))


def _are_plain(calls: Any) -> bool:
    """Return whether an assistant message's calls are certain to be canonical.

    A call is if it is a function call with ASCII texts, an id and no further fields.
    """
    if not isinstance(calls, list):
        return False
    for call in calls:
        if not isinstance(call, dict) or call.keys() != _CALL_FIELDS or call["type"] != "function":
            return False
        body, call_id = call["function"], call["id"]
        if not isinstance(body, dict) or body.keys() != _FUNCTION_FIELDS:
            return False
        if not (call_id and _is_ascii(call_id) and _is_ascii(body["name"])):
            return False
        if not _is_ascii(body["arguments"]):
            return False
    return True


def _is_ascii(value: object) -> bool:
    return isinstance(value, str) and value.isascii()


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _canonical_calls(calls: Any, position: int) -> list[Json] | None:
    """Return the canonical calls of the message at `position`; None if any call is invalid."""
    if not isinstance(calls, list):
        return None
    canonical_calls: list[Json] = []
    for number, call in enumerate(calls):
        canonical_call = _canonical_call(call, generated_id(position, number))
        if canonical_call is None:
            return None
        canonical_calls.append(canonical_call)
    return canonical_calls


def _canonical_call(call: Any, default_id: str) -> Json | None:
    """Return a call with only its id, type, name and arguments; None if the call is invalid.

    A call without an id gets `default_id`. An id may be a number, as some gateways send. Arguments
    that are no text become JSON.
    """
    if not isinstance(call, Mapping):
        return None
    # The id: a text, a number, or none.
    call_id = str(call["id"]) if _is_number(call.get("id")) else call.get("id")
    if not isinstance(call_id, (str, type(None))):
        return None
    # The name and the arguments, which a custom tool call has in other fields.
    kind, arguments_field = "function", "arguments"
    if call.get("type") == "custom":
        kind, arguments_field = "custom", "input"
    body = call.get(kind)
    if not isinstance(body, Mapping) or not isinstance(body.get("name"), str):
        return None
    arguments = body.get(arguments_field)
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {
        "id": clean_text(call_id or default_id),
        "type": kind,
        kind: {"name": clean_text(body["name"]), arguments_field: clean_text(arguments or "")},
    }
