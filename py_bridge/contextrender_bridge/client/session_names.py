"""Names for sessions that their runtime has no name for, made from how a history begins."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from contextrender_bridge import wire

Message = Mapping[str, Any]


def name_of(messages: Sequence[Message], caller: str = "") -> str:
    """The same for every call of one history; `caller` keeps those of others apart."""
    return f"auto-{digest_of(caller, _opening(messages))}"


def digest_of(*values: Any) -> str:
    """32 hexadecimal digits that tell JSON values apart."""
    return hashlib.sha256(wire.dumps(values)).hexdigest()[:32]


def _opening(messages: Sequence[Message]) -> list[Message]:
    """The first messages, up to the first of the user."""
    for position, message in enumerate(messages):
        if message["role"] == "user":
            return list(messages[: position + 1])
    return list(messages[:1])
