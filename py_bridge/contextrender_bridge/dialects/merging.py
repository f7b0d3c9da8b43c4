"""Merging of the model's messages that become neighbours when the result between is omitted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import takewhile
from typing import Any

from contextrender_bridge.base.wire import Json

THINKING = ("thinking", "redacted_thinking")
"""Types of content blocks with the model's thinking."""
NumberedItem = tuple[int, Any]
"""The number of an item in the request, and the item."""


def merge_neighbours(
    items: Iterable[NumberedItem],
    join: Callable[[Json, Json], Json | None],
    unmergeable: Collection[int],
) -> list[Any]:
    """Return the items, after merging messages of the model that have become neighbours.

    Two messages become neighbours if all items between them are omitted. Some providers and chat
    templates refuse two messages of the model in a row. Messages that the agent sent side by side
    are not merged, and neither are the items with `unmergeable` numbers. `join` merges two
    messages; it returns None if it cannot.
    """
    merged_items: list[Any] = []
    last_number = -1
    for number, item in items:
        previous: Any = merged_items[-1] if merged_items else None
        are_of_model = _is_of_model(previous) and _is_of_model(item)
        became_neighbours = are_of_model and number > last_number + 1  # a number is missing
        are_mergeable = number not in unmergeable and last_number not in unmergeable
        may_merge = became_neighbours and are_mergeable
        # Merge the item into the message before it, or add it.
        merged = join(previous, item) if may_merge else None
        if merged is None:
            merged_items.append(item)
        else:
            merged_items[-1] = merged
        last_number = number
    return merged_items


def join_chat(before: Json, after: Json) -> Json | None:
    """Merge two chat messages into the second one, which gets both texts.

    Drop the first message's other fields, such as its reasoning: they belong to an omitted step.
    Return None if the first message has calls.
    """
    if before.get("tool_calls") or before.get("function_call"):
        return None
    first, second = before.get("content"), after.get("content")
    if isinstance(first, list) or isinstance(second, list):
        content: Any = [*_parts(first), *_parts(second)]
    else:
        content = "\n\n".join(text for text in (first, second) if text) or None
    return {**after, "content": content}


def join_blocks(before: Json, after: Json) -> Json | None:
    """Merge two messages of content blocks into the first one, which gets all blocks.

    A message with thinking must begin with thinking. So the second message's thinking moves to the
    start, unless the first message has thinking itself.
    """
    first, second = _parts(before["content"]), _parts(after["content"])
    thinking = [] if any(map(_is_thinking, first)) else list(takewhile(_is_thinking, second))
    return {**before, "content": [*thinking, *first, *second[len(thinking) :]]}


def _is_thinking(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") in THINKING


def _parts(content: Any) -> list[Any]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _is_of_model(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "assistant"
