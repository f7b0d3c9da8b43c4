"""Server-sent events: split into their raw bytes, and read."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from contextrender_bridge.base import wire

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LONGEST_END = 4


class Event(NamedTuple):
    """One event: its bytes as they came, and its data if that is a JSON object."""

    raw: bytes
    data: dict[str, Any] | None


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    """The events of a stream; together their bytes are those of the stream."""
    pending, searched = bytearray(), 0
    async for chunk in chunks:
        pending += chunk
        begin = 0
        while found := _END.search(pending, max(begin, searched)):
            raw = bytes(pending[begin : found.end()])
            yield Event(raw, _data(raw))
            begin = found.end()
        del pending[:begin]
        # What ends an event may come in two pieces; no byte is searched more often.
        searched = max(0, len(pending) - _LONGEST_END)
    if pending:
        yield Event(bytes(pending), _data(bytes(pending)))


def _data(raw: bytes) -> dict[str, Any] | None:
    lines = [line[5:].strip() for line in raw.splitlines() if line.startswith(b"data:")]
    if not lines or not lines[0].startswith(b"{"):
        return None
    try:
        value = wire.loads(b"\n".join(lines))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
