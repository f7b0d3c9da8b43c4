"""Server-sent events: split into their raw bytes, read, and written anew where one must change."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from contextrender_bridge import wire

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class Event(NamedTuple):
    """One event: its bytes as they came, and its data if that is a JSON object."""

    raw: bytes
    data: dict[str, Any] | None


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    """The events of a stream; together their bytes are those of the stream."""
    pending = b""
    async for chunk in chunks:
        pending += chunk
        while found := _END.search(pending):
            yield Event(pending[: found.end()], _data(pending[: found.end()]))
            pending = pending[found.end() :]
    if pending:
        yield Event(pending, _data(pending))


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
