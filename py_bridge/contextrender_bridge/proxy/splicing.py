"""A shortened request in the bytes of the original one: only messages that changed are written
anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.proxy.bodies import Body


def spliced(raw: bytes, read: Body, key: str, left: Mapping[str, Any]) -> bytes:
    """Return `left`, a shortened copy of the request `raw`, with the bytes of all that is the same.

    `read` is the request as it was read, and `key` the field of its items. Without the places of
    the items in the text, all of it is written anew.
    """
    if read.close <= 0 or not isinstance(left.get(key), list):
        return wire.dumps(left)
    text = raw.decode()
    places = {id(item): n for n, item in enumerate(read.items) if isinstance(item, (dict, list))}
    pieces = []
    for item in left[key]:
        place = places.get(id(item))
        if place is None:
            pieces.append(wire.dumps(item))
        else:
            pieces.append(text[read.starts[place] : read.ends[place]].encode())
    begin, end = text[: read.open].encode(), text[read.close :].encode()
    return begin + b",".join(pieces) + end
