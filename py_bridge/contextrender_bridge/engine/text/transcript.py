"""The canonical transcript: OpenAI chat messages, checked, split into events, and restored exactly.

The graph stores an event as one node: a message, a tool call or a tool result. Its text is stored
apart from its `shell`, which is the JSON of all other fields, so that texts can be searched. The
original message can be restored exactly from both.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.wire import Json as Json
from contextrender_bridge.base.wire import loads
from contextrender_bridge.engine.text.tokens import (
    TokenCounter,
    call_parts,
    call_text,
    content_text,
    json_text,
)

Role = Literal["system", "user", "assistant", "tool"]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
MAX_LEVELS = 190
"""The largest number of levels of lists and objects in a message.

JSON parsers allow 200, and an export has five levels around a message.
"""
_PLACEHOLDER = "\x00held apart"
"""The value in a shell of a field that is stored apart: the text, or the tool calls."""


class TranscriptEvent(NamedTuple):
    """One message, tool call or tool result.

    `message` is the position of the message in the transcript. `call` is the number of a call in
    its message, or -1 if the event is no call. `text` is the text, or a call's arguments. `shell`
    is the JSON of all other fields. `tokens` is the size of this event alone.
    """

    kind: Literal["message", "call", "result"]
    role: Role
    message: int
    call: int
    text: str
    shell: str
    tokens: int
    call_id: str = ""
    name: str = ""


def check_messages(messages: Sequence[object], start: int) -> None:
    """Raise InvalidRequest if a message is not an OpenAI chat message.

    The error names the position of the first such message, and never quotes contents. `start` is
    the position of the first message.
    """
    for position, message in enumerate(messages, start):
        problem = _problem(message)
        if problem:
            raise InvalidRequest(f"message {position}: {problem}", position=position)


def split(message: Json, position: int, counter: TokenCounter) -> list[TranscriptEvent]:
    """Return the events of a checked message: first its text or result, then its tool calls."""
    # The shell is the JSON of all fields but the text, with a placeholder instead of the calls.
    role = _ROLES[message["role"]]
    text, shell = _take_text_out(message, "content")
    tokens, *call_tokens = counter.parts(message)
    if role == "tool":
        call_id, name = message["tool_call_id"], str(message.get("name") or "")
        return [TranscriptEvent("result", role, position, -1, text, shell, tokens, call_id, name)]
    events = [TranscriptEvent("message", role, position, -1, text, shell, tokens)]
    calls = message.get("tool_calls") if role == "assistant" else None
    for number, call in enumerate(calls or ()):
        name, _ = call_parts(call)
        # A call has its name and arguments in an inner object, the body. Take the arguments out of
        # the body, and put the body's shell into the call's shell.
        _, body_key, argument_key = _call_shape(call)
        arguments, body_shell = _take_text_out(call[body_key], argument_key)
        events.append(
            TranscriptEvent(
                kind="call",
                role=role,
                message=position,
                call=number,
                text=arguments,
                shell=json.dumps({**call, body_key: body_shell}),
                tokens=call_tokens[number],
                call_id=call["id"],
                name=name,
            )
        )
    return events


def restore_message(text: str, shell: str, calls: Sequence[Json] = ()) -> Json:
    """Return the original message from its `text`, its `shell` and its tool `calls`.

    `shell` is the JSON of the message's other fields. It has a placeholder instead of the calls,
    because these are events of their own.
    """
    message = _put_text_in(text, shell, "content")
    if message["role"] == "assistant" and message.get("tool_calls") == _PLACEHOLDER:
        if calls:
            message["tool_calls"] = list(calls)
        else:
            del message["tool_calls"]
    return message


def restore_call(text: str, shell: str) -> Json:
    """Return the original tool call of an event.

    `text` has its arguments, and `shell` is the JSON of its other fields.
    """
    call: Json = loads(shell)
    _, body_key, argument_key = _call_shape(call)
    call[body_key] = _put_text_in(text, call[body_key], argument_key)
    return call


def operation_text(event: TranscriptEvent) -> str:
    """Return the text of an operation: an assistant's text, or a call's name and arguments."""
    return call_text(event.name, event.text) if event.kind == "call" else event.text


def digest_after(prefix: str, message: Mapping[str, Any]) -> str:
    """Return the digest of a transcript after a message. `prefix` is its digest before it."""
    canonical = json.dumps(message, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{prefix}\n{canonical}".encode()).hexdigest()[:32]


def digests_after(prefix: str, messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the transcript's digest after each message. `prefix` is its digest before them."""
    return list(accumulate(messages, digest_after, initial=prefix))[1:]


def _take_text_out(fields: Mapping[str, Any], key: str) -> tuple[str, str]:
    """Return the text under `key`, and the shell: the JSON of the other fields.

    In the shell, a placeholder replaces the text. Another one replaces the tool calls, because they
    are events of their own.
    """
    shell, value = dict(fields), fields.get(key)
    if shell.get("tool_calls") and shell.get("role") == "assistant":
        shell["tool_calls"] = _PLACEHOLDER
    if isinstance(value, str):
        shell[key] = _PLACEHOLDER
        text = value
    elif not value:
        text = ""
    # A value that is no text stays in the shell. Its text is only for searches and counts.
    else:
        text = content_text(value) if key == "content" else json_text(value)
    return text, json.dumps(shell)


def _put_text_in(text: str, shell: str, key: str) -> Json:
    """Return the fields of a shell that `_take_text_out` returned, with `text` under `key`.

    If the shell has no placeholder under `key`, the original value was no text, so keep it.
    """
    fields: Json = loads(shell)
    if fields.get(key) == _PLACEHOLDER:
        fields[key] = text
    return fields


def _call_shape(call: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return a call's type, the key of its body, and the key of the arguments in that body."""
    if call.get("type") == "custom":
        return "custom", "custom", "input"
    return "function", "function", "arguments"


def _problem(message: object) -> str:
    """Return why `message` is no OpenAI chat message, or "" if it is one.

    The reason never quotes contents of the message, because it is shown in errors.
    """
    if not isinstance(message, dict):
        return "must be an object with a role"
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        return f"role must be one of {', '.join(_ROLES)}"
    content = message.get("content")
    if content is not None and not isinstance(content, str | list):
        return "content must be text, a list of parts, or null"
    if isinstance(content, list) and not all(isinstance(part, dict | str) for part in content):
        return "content parts must be objects or texts"
    if _is_too_deep(message):
        return f"may have up to {MAX_LEVELS} levels of lists and objects"
    if role == "tool":
        call_id = message.get("tool_call_id")
        has_call_id = isinstance(call_id, str) and bool(call_id)
        return "" if has_call_id else "a tool result needs its tool_call_id"
    if role == "assistant":
        return _calls_problem(message.get("tool_calls"))
    return ""


def _is_too_deep(message: Json) -> bool:
    """Return whether lists and objects are nested in a message on more than `MAX_LEVELS` levels."""
    level: list[Any] = [message]  # all lists and objects on one level
    for _ in range(MAX_LEVELS):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _calls_problem(calls: object) -> str:
    """Return why `calls` are no tool calls of an assistant message, or "" if they are valid."""
    if calls is None:
        return ""
    if not isinstance(calls, list):
        return "tool_calls must be a list"
    for index, call in enumerate(calls):
        if not isinstance(call, dict):
            return f"tool_calls[{index}] must be an object"
        if not (isinstance(call.get("id"), str) and call["id"]):
            return f"tool_calls[{index}] needs an id"
        _, body_key, _ = _call_shape(call)
        body = call.get(body_key)
        if not isinstance(body, dict) or not isinstance(body.get("name"), str):
            return f"tool_calls[{index}] needs {body_key}.name"
    return ""
