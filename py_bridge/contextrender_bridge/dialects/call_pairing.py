"""Ids for tool calls and results that have none, which are paired by their order.

Ollama and older chat completions name the tool alone, and some gateways leave ids empty. Such a
result answers the first open call of the latest step that called, by the tool's name if the result
has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contextrender_bridge.base.wire import Json

MADE = "call-"
"""The beginning of the ids that are made here: `call-` message `-` number."""


def made_id(message: int, number: int) -> str:
    """Return an id for the call with this number in a canonical message."""
    return f"{MADE}{message}-{number}"


def is_made(name: str) -> bool:
    """Return whether an id was made here."""
    first, _, number = name.removeprefix(MADE).partition("-")
    return name.startswith(MADE) and first.isdigit() and number.isdigit()


def answered_id(
    messages: Sequence[Json], given: object, tool: object, later: Sequence[object] = ()
) -> str | None:
    """Return the id of the call that a result answers, which is to be the next of `messages`.

    `given` is the result's own id and `tool` its tool's name, if it has them. `later` are the ids
    of the results that follow it in the same step: their calls are not this one's. None: it answers
    no call.
    """
    own = given if isinstance(given, str) and given else ""
    opened = open_calls(messages)
    if own and (any(name == own for name, _ in opened) or not any(is_made(n) for n, _ in opened)):
        return own
    opened = [(name, called) for name, called in opened if name not in later]
    if own:
        opened = [(name, called) for name, called in opened if is_made(name)]
    if isinstance(tool, str) and tool:
        opened = [(name, called) for name, called in opened if called == tool]
    return opened[0][0] if opened else own or None


def open_calls(messages: Sequence[Json]) -> list[tuple[str, str]]:
    """Return the ids and tools of the calls of the latest step that have no result yet."""
    answered: list[object] = []
    for message in reversed(messages):
        if message["role"] == "tool":
            answered.append(message["tool_call_id"])
        elif message.get("tool_calls"):
            found = []
            for call in message["tool_calls"]:
                if call["id"] in answered:
                    answered.remove(call["id"])
                else:
                    found.append((call["id"], str(call[call["type"]]["name"])))
            return found
        elif message["role"] == "assistant":
            return []
    return []


def ids_of_step(items: Sequence[Any], names: Sequence[str]) -> list[object]:
    """Return the ids of the results that come before the model's next message.

    `names` are the fields that may have a result's id.
    """
    found: list[object] = []
    for item in items:
        if not isinstance(item, Mapping) or item.get("role") == "assistant":
            break
        found += [item[name] for name in names if item.get(name)]
    return found
