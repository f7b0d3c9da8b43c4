"""Server-sent events: split into their raw bytes, read, and written anew where one must change."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, NamedTuple

from contextrender_bridge.base import wire

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class Event(NamedTuple):
    """One event: its bytes as they came, and its data if that is a JSON object."""

    raw: bytes
    data: dict[str, Any] | None


def events(stream: bytes) -> list[Event]:
    """The events of a stream; together their bytes are those of the stream."""
    ends = [found.end() for found in _END.finditer(stream)]
    raws = [stream[begin:end] for begin, end in pairwise([0, *ends, len(stream)])]
    return [Event(raw, _data(raw)) for raw in raws if raw]


def rewritten(event: Event, data: dict[str, Any]) -> bytes:
    """The event with other data; its other lines stay."""
    lines = [line for line in event.raw.splitlines() if line and not line.startswith(b"data:")]
    return b"\n".join([*lines, b"data: " + wire.dumps(data)]) + b"\n\n"


def _data(raw: bytes) -> dict[str, Any] | None:
    lines = [line[5:].strip() for line in raw.splitlines() if line.startswith(b"data:")]
    if not lines or not lines[0].startswith(b"{"):
        return None
    try:
        value = wire.loads(b"\n".join(lines))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
