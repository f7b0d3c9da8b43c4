"""OpenAI chat completions: `messages` with `tool_calls` and `tool` messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.base import (
    Body,
    Dialect,
    Placed,
    Transcript,
    join_chat,
    merged,
    usable,
)
from contextrender_bridge.dialects.call_pairing import MADE, answered_id, ids_of_step, made_id
from contextrender_bridge.dialects.contents import (
    canonical_content,
    clean_text,
    with_text,
)
from contextrender_bridge.dialects.message_plan import MessagePlan, Part
from contextrender_bridge.dialects.signatures import point_reasoning, sign_first

_ROLES = ("system", "developer", "user", "assistant", "tool")
_RESULT_ROLES = ("tool", "function")
_SPOKEN = frozenset({"role", "content", "name"})
_ANSWER = frozenset({*_SPOKEN, "tool_calls"})
# Of a result without its tool's name, which some runtimes lose when they resume a session.
_RESULT = frozenset({"role", "content", "tool_call_id"})
_CALL = frozenset({"id", "type", "function"})
_FUNCTION_BODY = frozenset({"name", "arguments"})
_FUNCTION = ("function", "arguments")


class ChatTranscript(Transcript):
    """Canonical messages are the original ones, one for one, but for those not understood."""

    def __init__(self, body: Body, before: Transcript | None = None) -> None:
        """Reads `messages`; trailing volatile user messages are kept, but are not history."""
        past = usable(before, ChatTranscript)
        super().__init__(body, "messages", past)
        self.places: list[int | None] = past.places[: self._known] if past else []
        """The canonical message that each item is, if it is one."""
        for index, item in enumerate(self._fresh, self._known):
            canonical = self._canonical(index, item)
            if canonical is None:
                self.places.append(None)
            else:
                self.places.append(len(self.messages))
                self.messages.append(canonical)
            self._read_item(index, stays=canonical is None)
        self.places += [None] * (len(self._items) - self._end)

    def apply(self, plan: MessagePlan) -> Json:
        """The body with only the messages and calls that the plan shows."""
        if not self._items:
            return dict(self._body)
        kept: list[Placed] = []
        staying = [(index, self.places[index]) for index in self._staying(plan)]
        parts = plan.parts([place for _, place in staying if place is not None])
        for index, place in staying:
            item = self._items[index]
            left = item if place is None else _applied(item, parts[place])
            if left is not None or place is None:
                kept.append((index, left))
        return {**self._body, "messages": merged(kept, join_chat, self._apart(self.places))}

    def _canonical(self, index: int, item: Any) -> Json | None:
        """Return the message as it is recorded, with ids for calls and results that have none."""
        if isinstance(item, dict) and item.get("role") in _RESULT_ROLES:
            if self._asks_order(item):
                later = ids_of_step(self._items[index + 1 : self._end], ("tool_call_id",))
                tool = item.get("tool_name") or item.get("name")
                answered = answered_id(self.messages, item.get("tool_call_id"), tool, later)
                if not answered:
                    return None
                item = {**item, "role": "tool", "tool_call_id": answered}
            return canonical_message(item)
        return canonical_message(item, len(self.messages))

    def _asks_order(self, item: Json) -> bool:
        """Return whether a result is paired by order: it has no id, or calls before it have
        none."""
        given = item.get("tool_call_id")
        if not (isinstance(given, str) and given):
            return True
        for message in reversed(self.messages):
            if message.get("tool_calls"):
                return any(call["id"].startswith(MADE) for call in message["tool_calls"])
            if message["role"] != "tool":
                return False
        return False

    def result(self, message: int) -> Any:
        """The content of the tool message."""
        return self._items[self._item_of[message]].get("content")


CHAT = Dialect("messages", ChatTranscript)


def canonical_message(item: Any, position: int = 0) -> Json | None:
    """Return the message as it is recorded at this position; None if it is not a chat message."""
    if not isinstance(item, dict):
        return None
    if _is_plain(item):
        return item
    role, content = item.get("role"), item.get("content")
    if role not in _ROLES or not isinstance(content, (str, list, type(None))):
        return None
    if role == "tool" and not (item.get("tool_call_id") and isinstance(item["tool_call_id"], str)):
        return None
    calls = _calls_of(item) if role == "assistant" else None
    message = {"role": role, "content": canonical_content(content)}
    if role == "tool":
        message["tool_call_id"] = clean_text(item["tool_call_id"])
    if isinstance(item.get("name"), str) and role != "tool":
        message["name"] = clean_text(item["name"])
    if calls:
        canonical = _canonical_calls(calls, position)
        if canonical is None:
            return None
        message["tool_calls"] = canonical
    return message


def _calls_of(item: Mapping[str, Any]) -> Any:
    """Return a message's calls; older chat completions have one, in a field of its own."""
    if item.get("tool_calls"):
        return item["tool_calls"]
    called = item.get("function_call")
    return [{"type": "function", "function": called}] if isinstance(called, Mapping) else None


def _applied(item: Json, part: Part) -> Json | None:
    shown, text, calls, staying = part
    if not shown and not staying:
        return None
    cut = any(arguments is not None for arguments in staying.values())
    if shown and text is None and len(staying) == calls and not cut:
        return item
    left = dict(item)
    if cut or len(staying) < calls:
        left = _with_calls(left, staying)
    if not shown or text is not None:
        before, content = item.get("content"), text or ""
        content = with_text(before, content) if isinstance(before, list) else content
        left["content"] = content if content or not staying else None
    return left


def _with_calls(item: Json, staying: Mapping[int, str | None]) -> Json:
    """Return the message with the calls that stay, by number, and their arguments."""
    if not item.get("tool_calls"):
        called = {**item, "function_call": _with_arguments(item["function_call"], staying.get(0))}
        return called if staying else {k: called[k] for k in called if k != "function_call"}
    calls = item["tool_calls"]
    shown = {n: _shown_call(calls[n], arguments) for n, arguments in staying.items()}
    signed = sign_first(calls, shown)
    omitted = [call.get("id") for n, call in enumerate(calls) if n not in staying]
    first = signed[min(signed)].get("id") if signed else None
    left = point_reasoning({**item, "tool_calls": list(signed.values())}, omitted, first)
    return left if signed else {k: left[k] for k in left if k != "tool_calls"}


def _shown_call(call: Json, arguments: str | None) -> Json:
    """Return the call, with these arguments if there are any."""
    if arguments is None:
        return call
    body = "custom" if call.get("type") == "custom" else "function"
    return {**call, body: _with_arguments(call[body], arguments)}


def _with_arguments(body: Json, arguments: str | None) -> Json:
    """Return a call's function with these arguments, as a text or an object as they were."""
    if arguments is None:
        return body
    key = "input" if "input" in body else "arguments"
    is_object = isinstance(body.get(key), Mapping)
    return {**body, key: json.loads(arguments) if is_object else arguments}


def _is_plain(item: Json) -> bool:
    """Whether a message is canonical as it is, which nearly all of a long history are: in few steps
    for each.
    """
    role, content = item.get("role"), item.get("content")
    if content is not None and not (isinstance(content, str) and content.isascii()):
        return False
    if role == "tool":
        named = item.get("tool_call_id")
        return isinstance(named, str) and named != "" and item.keys() <= _RESULT
    if role not in _ROLES or ("name" in item and not _is_ascii(item["name"])):
        return False
    if role != "assistant":
        return item.keys() <= _SPOKEN
    calls = item.get("tool_calls")
    return item.keys() <= _ANSWER and (calls is None or _are_plain(calls))


def _are_plain(calls: Any) -> bool:
    if not isinstance(calls, list):
        return False
    for call in calls:
        if not isinstance(call, dict) or call.keys() != _CALL or call["type"] != "function":
            return False
        body, named = call["function"], call["id"]
        if not isinstance(body, dict) or body.keys() != _FUNCTION_BODY:
            return False
        if not (named and _is_ascii(named) and _is_ascii(body["name"])):
            return False
        if not _is_ascii(body["arguments"]):
            return False
    return True


def _is_ascii(value: object) -> bool:
    return isinstance(value, str) and value.isascii()


def _canonical_calls(calls: Any, position: int) -> list[Json] | None:
    if not isinstance(calls, list):
        return None
    found = [_canonical_call(call, made_id(position, n)) for n, call in enumerate(calls)]
    return None if None in found else [call for call in found if call is not None]


def _canonical_call(call: Any, made: str) -> Json | None:
    """Return a call with its id, name and arguments alone; None if it has no name.

    A call without an id gets the one that was `made` for it.
    """
    if not isinstance(call, Mapping) or not isinstance(call.get("id", ""), (str, type(None))):
        return None
    kind, argument = ("custom", "input") if call.get("type") == "custom" else _FUNCTION
    body = call.get(kind)
    if not isinstance(body, Mapping) or not isinstance(body.get("name"), str):
        return None
    arguments = body.get(argument)
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {
        "id": clean_text(call.get("id") or made),
        "type": kind,
        kind: {"name": clean_text(body["name"]), argument: clean_text(arguments or "")},
    }
