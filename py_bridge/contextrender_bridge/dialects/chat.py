"""OpenAI chat completions: `messages` with `tool_calls` and `tool` messages."""

from __future__ import annotations

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
from contextrender_bridge.dialects.contents import (
    canonical_content,
    clean_text,
    with_text,
)
from contextrender_bridge.dialects.message_plan import MessagePlan, Part

_ROLES = ("system", "developer", "user", "assistant", "tool")
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
            canonical = canonical_message(item)
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
        return {**self._body, "messages": merged(kept, join_chat)}

    def result(self, message: int) -> Any:
        """The content of the tool message."""
        return self._items[self._item_of[message]].get("content")


CHAT = Dialect("messages", ChatTranscript)


def canonical_message(item: Any) -> Json | None:
    """The message as it is recorded; None when it is not a chat message."""
    if not isinstance(item, dict):
        return None
    if _is_plain(item):
        return item
    role, content = item.get("role"), item.get("content")
    if role not in _ROLES or not isinstance(content, (str, list, type(None))):
        return None
    if role == "tool" and not (item.get("tool_call_id") and isinstance(item["tool_call_id"], str)):
        return None
    calls = item.get("tool_calls") if role == "assistant" else None
    message = {"role": role, "content": canonical_content(content)}
    if role == "tool":
        message["tool_call_id"] = clean_text(item["tool_call_id"])
    if isinstance(item.get("name"), str) and role != "tool":
        message["name"] = clean_text(item["name"])
    if calls:
        canonical = _canonical_calls(calls)
        if canonical is None:
            return None
        message["tool_calls"] = canonical
    return message


def _applied(item: Json, part: Part) -> Json | None:
    shown, text, calls, staying = part
    if not shown and not staying:
        return None
    cut = any(arguments is not None for arguments in staying.values())
    if shown and text is None and len(staying) == calls and not cut:
        return item
    left = dict(item)
    if cut or len(staying) < calls:
        if staying:
            left["tool_calls"] = [_shown_call(item["tool_calls"][n], staying[n]) for n in staying]
        else:
            del left["tool_calls"]
    if not shown or text is not None:
        before, content = item.get("content"), text or ""
        content = with_text(before, content) if isinstance(before, list) else content
        left["content"] = content if content or not staying else None
    return left


def _shown_call(call: Json, arguments: str | None) -> Json:
    """The call, with these arguments if there are any."""
    if arguments is None:
        return call
    body, key = ("custom", "input") if call.get("type") == "custom" else _FUNCTION
    return {**call, body: {**call[body], key: arguments}}


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


def _canonical_calls(calls: Any) -> list[Json] | None:
    if not isinstance(calls, list):
        return None
    found = [_canonical_call(call) for call in calls]
    return None if None in found else [call for call in found if call is not None]


def _canonical_call(call: Any) -> Json | None:
    """A call with its id, name and arguments alone; None when it lacks one of them."""
    if not isinstance(call, Mapping) or not (call.get("id") and isinstance(call["id"], str)):
        return None
    kind, argument = ("custom", "input") if call.get("type") == "custom" else _FUNCTION
    body = call.get(kind)
    if not isinstance(body, Mapping) or not isinstance(body.get("name"), str):
        return None
    arguments = body.get(argument)
    if arguments is None or isinstance(arguments, str):
        arguments = clean_text(arguments or "")
    return {
        "id": clean_text(call["id"]),
        "type": kind,
        kind: {"name": clean_text(body["name"]), argument: arguments},
    }
