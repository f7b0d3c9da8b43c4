"""Names sessions by how their history begins, where the runtime has no name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.dialects.base import Dialect

Message = Mapping[str, Any]


def name_of(messages: Sequence[Message], caller: str = "") -> str:
    """The same for every call of one history; `caller` keeps those of others apart."""
    return f"auto-{digest_of(caller, _opening(messages))}"


def name_of_body(reader: Dialect, body: Mapping[str, Any]) -> str:
    """That of a body's history; most times the first items tell it."""
    items: Any = body.get(reader.key)
    for end, item in enumerate(items if isinstance(items, list) else [], 1):
        if isinstance(item, Mapping) and item.get("role") == "user":
            opening = reader.read({**body, reader.key: items[:end]}).messages
            if any(message["role"] == "user" for message in opening):
                return name_of(opening)
            break
    whole = reader.read(body).messages
    return name_of(whole) if whole else ""


def digest_of(*values: Any) -> str:
    """32 hexadecimal digits that tell JSON values apart."""
    return hashlib.sha256(wire.dumps(values)).hexdigest()[:32]


def _opening(messages: Sequence[Message]) -> list[Message]:
    """The first messages, up to the first of the user."""
    for position, message in enumerate(messages):
        if message["role"] == "user":
            return list(messages[: position + 1])
    return list(messages[:1])
