"""Cache marks (`cache_control`) in a Messages request, at the service's cache breakpoints.

A provider accepts four marks in a request, including the agent's own. Its cache matches only up to
a mark, or to a position shortly before one. Agents mark the end of their prompt, so a change at the
start of the prompt would rewrite everything after the last unchanged mark. A request without any
mark gets none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.base import DEFAULT_CACHE_MINUTES, Body
from contextrender_bridge.dialects.contents import is_text

MAX_MARKS = 4
MARK = "cache_control"
"""The field of a block, of a tool or of the body that is a cache mark."""
_NEWEST = 8
"""The number of newest messages that are searched for a lifetime: agents mark the newest ones."""
_MINUTES = {"5m": DEFAULT_CACHE_MINUTES, "1h": 60.0}
_MARKABLE = ("text", "image", "document", "tool_use", "tool_result")


class Block(NamedTuple):
    """A block in the prompt: its item, its number in the item, and its canonical message."""

    item: int
    number: int
    message: int
    block: Any


def mark_items(
    body: Body, blocks: Sequence[Block], breakpoints: Iterable[int], marked_items: Sequence[int]
) -> dict[int, Json]:
    """Return a dictionary that maps the number of each item that gets a mark to a marked copy.

    For each breakpoint, which is a message position, mark the last of the `blocks` up to it, until
    the request has `MAX_MARKS`. `marked_items` are the numbers of the items in which the agent has
    set marks. Return an empty dictionary if the agent has set none at all.

    A new mark has the lifetime of the agent's next mark, or of its last one if none follows. The
    API demands that marks with a longer lifetime come first.
    """
    items: Sequence[Any] = body["messages"]
    # Find the agent's marks, in the order of the prompt. A field `cache_control` of the body itself
    # marks the prompt's end.
    marks_before = [mark for part in ("tools", "system") for mark in marks_in(body.get(part))]
    message_marks = [mark for number in marked_items for mark in marks_in(items[number])]
    end_marks = [body[MARK]] if isinstance(body.get(MARK), dict) else []
    agent_marks = [*marks_before, *message_marks, *end_marks]
    if not agent_marks:
        return {}
    # Add as many marks as are still allowed.
    free_count = max(MAX_MARKS - len(agent_marks), 0)
    new_items: dict[int, Json] = {}
    for item, block in _unmarked_blocks(blocks, breakpoints)[:free_count]:
        # `item` is the number of an item, and `block` the number of a block in it. Find the agent's
        # next mark: in this item or a later one, at the prompt's end, or else the last one.
        later_marks = [mark for n in marked_items if n >= item for mark in marks_in(items[n])]
        next_mark = [*later_marks, *end_marks, agent_marks[-1]][0]
        new_items[item] = _with_mark(new_items.get(item, items[item]), block, next_mark)
    return new_items


def cache_ttl_minutes(body: Body) -> float:
    """Return the minutes for which the provider keeps a request's prompt in its cache.

    It is 5 or 60 minutes: the longest lifetime of the marks in the tools, the system prompt and the
    newest messages.
    """
    messages = body.get("messages")
    newest = messages[-_NEWEST:] if isinstance(messages, list) else []
    parts = [body.get("tools"), body.get("system"), newest, {MARK: body.get(MARK)}]
    marks = [mark for part in parts for mark in marks_in(part)]
    minutes = (_MINUTES.get(str(mark.get("ttl")), DEFAULT_CACHE_MINUTES) for mark in marks)
    return max(minutes, default=DEFAULT_CACHE_MINUTES)


def _unmarked_blocks(blocks: Sequence[Block], breakpoints: Iterable[int]) -> list[tuple[int, int]]:
    """Return the last markable block up to each breakpoint, unless it has a mark already.

    Each block is given by the number of its item and its number in the item, and only once.
    """
    numbers: list[tuple[int, int]] = []
    for position in breakpoints:
        candidates = [b for b in blocks if b.message <= position and _can_be_marked(b.block)]
        if not candidates:
            continue
        last = candidates[-1]
        if not marks_in(last.block) and (last.item, last.number) not in numbers:
            numbers.append((last.item, last.number))
    return numbers


def _can_be_marked(block: Any) -> bool:
    """Return whether the API accepts a cache mark on a block. It refuses one on an empty text."""
    if not isinstance(block, Mapping) or block.get("type") not in _MARKABLE:
        return False
    return block["type"] != "text" or (is_text(block) and bool(block["text"].strip()))


def _with_mark(item: Json, number: int, next_mark: Json) -> Json:
    """Return a copy of the item whose block `number` has a cache mark.

    The mark has the lifetime (`ttl`) of the mark `next_mark`.
    """
    mark = {"type": "ephemeral"}
    if "ttl" in next_mark:
        mark["ttl"] = next_mark["ttl"]
    content = item["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    blocks[number] = {**blocks[number], MARK: mark}
    return {**item, "content": blocks}


def marks_in(part: Any) -> list[Json]:
    """Return the cache marks in tools, a system prompt, a message or a block, in order."""
    if isinstance(part, list):
        return [mark for each in part for mark in marks_in(each)]
    if not isinstance(part, dict):
        return []
    own_marks = [part[MARK]] if isinstance(part.get(MARK), dict) else []
    return [*marks_in(part.get("content")), *own_marks]
