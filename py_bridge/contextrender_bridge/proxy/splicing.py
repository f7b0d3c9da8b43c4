"""The encoding of a shortened request, which reuses the original bytes of unchanged messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.proxy.bodies import Body


def splice(raw: bytes, read: Body, key: str, shortened: Mapping[str, Any]) -> bytes:
    """Encode a shortened copy of a request, with the original bytes of its unchanged items.

    `raw` is the request and `read` the same, parsed. `key` is the field with the items. If the
    positions of the items in `raw` are unknown, encode the whole copy.
    """
    if read.list_end <= 0 or not isinstance(shortened.get(key), list):
        return wire.dumps(shortened)
    text = raw.decode()
    # An unchanged item of the copy is the same object as in `read`, so `id` finds its number.
    numbers = {id(item): n for n, item in enumerate(read.items) if isinstance(item, (dict, list))}
    pieces = []
    for item in shortened[key]:
        number = numbers.get(id(item))
        if number is None:
            pieces.append(wire.dumps(item))
        else:
            pieces.append(text[read.starts[number] : read.ends[number]].encode())
    # Outside the list of items, the copy is equal to the request.
    begin, end = text[: read.list_start].encode(), text[read.list_end :].encode()
    return begin + b",".join(pieces) + end
