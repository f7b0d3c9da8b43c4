"""The model's messages that come to stand side by side where a result between them has left.

The agent never sent them so: some providers and chat templates refuse two in a row. They become
one message; those that the agent itself sent side by side stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from contextrender_bridge.base.wire import Json

Placed = tuple[int, Any]
"""An item, and its place among the request's."""


def merged(items: Iterable[Placed], join: Callable[[Json, Json], Json | None]) -> list[Any]:
    """The items, those merged that `join` can; it gives None for two that stay apart."""
    left: list[Any] = []
    last = -1
    for place, item in items:
        near = left and place > last + 1 and _is_models(left[-1]) and _is_models(item)
        one = join(left[-1], item) if near else None
        if one is None:
            left.append(item)
        else:
            left[-1] = one
        last = place
    return left


def join_chat(before: Json, after: Json) -> Json | None:
    """Two chat messages as one, whose calls are those of the latter."""
    if before.get("tool_calls") or before.get("function_call"):
        return None
    first, second = before.get("content"), after.get("content")
    if isinstance(first, list) or isinstance(second, list):
        content: Any = [*_parts(first), *_parts(second)]
    else:
        content = "\n\n".join(text for text in (first, second) if text) or None
    return {**before, **after, "content": content}


def join_blocks(before: Json, after: Json) -> Json | None:
    """Two messages of content blocks as one."""
    return {**before, "content": [*_parts(before["content"]), *_parts(after["content"])]}


def _parts(content: Any) -> list[Any]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _is_models(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "assistant"
