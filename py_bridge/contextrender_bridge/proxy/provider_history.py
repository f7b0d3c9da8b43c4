"""Recognise requests whose history, or a part of it, the provider keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIELDS = (
    *("previous_response_id", "previous_interaction_id", "previous_message_id"),
    *("conversation", "conversation_id", "thread", "cached_content", "cachedContent"),
)
"""Fields by which a request names a history that its provider keeps."""


def is_kept_by_provider(body: Mapping[str, Any]) -> bool:
    """Return whether the provider keeps the history, or begins to keep it with this request.

    Each later request has only new messages, so it has no history to render. The first one must not
    be shortened, because the provider would keep the shortened history.
    """
    return any(body.get(name) for name in FIELDS)


def has_references(body: Mapping[str, Any]) -> bool:
    """Return whether a Responses request only names some items, which the provider keeps."""
    items = body.get("input")
    return isinstance(items, list) and any(map(_is_reference, items))


def _is_reference(item: Any) -> bool:
    """Return whether an item is a reference, whose type may be left out."""
    if not isinstance(item, Mapping):
        return False
    kind = item.get("type")
    return kind == "item_reference" or (
        kind is None and bool(item.get("id")) and not item.keys() & {"role", "content"}
    )
