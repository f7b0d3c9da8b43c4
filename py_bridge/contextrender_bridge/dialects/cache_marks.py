"""Breakpoints of a prompt cache in a Messages request, where the service says they are worth one.

A provider takes four in a request, the agent's own included, and reads again only what ends at one
or shortly before. An agent marks the end of its prompt; when its beginning changes, what is behind
the last breakpoint that still stands is written anew. Requests without any mark stay without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.base import USUAL_MINUTES, Body
from contextrender_bridge.dialects.contents import is_text

MOST = 4
MARK = "cache_control"
_NEWEST = 8
"""Messages that are looked at: agents mark the end of their prompt."""
_MINUTES = {"5m": USUAL_MINUTES, "1h": 60.0}
_MARKABLE = ("text", "image", "document", "tool_use", "tool_result")


class Block(NamedTuple):
    """A block that stays: its item, its number there, and its canonical message."""

    item: int
    number: int
    message: int
    block: Any


def marked(
    body: Body, blocks: Sequence[Block], breakpoints: Iterable[int], places: Sequence[int]
) -> dict[int, Json]:
    """The items, by number, that get marks: on the last block up to each of `breakpoints`.

    `places` are the items that have marks of the agent's own. The first ones, as many as are free.
    Each lives as long as the agent's next one, as the API wants the long-lived first.
    """
    items: Sequence[Any] = body["messages"]
    own = [place for place in places for _ in marks_in(items[place])]
    outer = [mark for part in ("tools", "system") for mark in marks_in(body.get(part))]
    last = [body[MARK]] if isinstance(body.get(MARK), dict) else []
    if not (own or outer or last):
        return {}
    free = MOST - len(own) - len(outer) - len(last)
    found: dict[int, Json] = {}
    for place, number in _places(blocks, breakpoints)[: max(free, 0)]:
        behind = [mark for one in places if one >= place for mark in marks_in(items[one])]
        mark = [*behind, *last, *reversed(outer)][:1] or marks_in(items[own[-1]])[-1:]
        found[place] = _with_mark(found.get(place, items[place]), number, mark[0])
    return found


def cache_ttl_minutes(body: Body) -> float:
    """How long the provider keeps a request's prompt in its cache: 5 minutes or an hour, as the
    request's longest-lived mark says."""
    said = body.get("messages")
    newest = said[-_NEWEST:] if isinstance(said, list) else []
    parts = [body.get("tools"), body.get("system"), newest, {MARK: body.get(MARK)}]
    marks = [mark for part in parts for mark in marks_in(part)]
    minutes = (_MINUTES.get(str(mark.get("ttl")), USUAL_MINUTES) for mark in marks)
    return max(minutes, default=USUAL_MINUTES)


def _places(blocks: Sequence[Block], breakpoints: Iterable[int]) -> list[tuple[int, int]]:
    """The item and number of the block for each breakpoint; those that the agent marked are not."""
    found: list[tuple[int, int]] = []
    for position in breakpoints:
        before = [one for one in blocks if one.message <= position and _can_be_marked(one.block)]
        if before and not marks_in(before[-1].block):
            place = (before[-1].item, before[-1].number)
            found += [place] if place not in found else []
    return found


def _can_be_marked(block: Any) -> bool:
    if not isinstance(block, Mapping) or block.get("type") not in _MARKABLE:
        return False
    return block["type"] != "text" or (is_text(block) and bool(block["text"].strip()))


def _with_mark(item: Json, number: int, like: Json) -> Json:
    mark = {"type": "ephemeral", **({"ttl": like["ttl"]} if "ttl" in like else {})}
    content = item["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    blocks[number] = {**blocks[number], MARK: mark}
    return {**item, "content": blocks}


def marks_in(part: Any) -> list[Json]:
    """The marks in tools, a system prompt, a message or a block, in order."""
    if isinstance(part, list):
        return [mark for each in part for mark in marks_in(each)]
    if not isinstance(part, dict):
        return []
    own = [part[MARK]] if isinstance(part.get(MARK), dict) else []
    return [*marks_in(part.get("content")), *own]
