"""Recognise requests whose history, or a part of it, the provider stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIELDS = (
    *("previous_response_id", "previous_interaction_id", "previous_message_id"),
    *("conversation", "conversation_id", "context_id", "thread", "cached_content", "cachedContent"),
)
"""Request fields that name a history stored by the provider."""
_HOLDERS = ("extra_body", "google")
"""Request fields whose object may have such a field: `extra_body.google.cached_content`."""


def is_kept_by_provider(body: Mapping[str, Any]) -> bool:
    """Return whether the provider stores the history, or begins to store it with this request.

    Such a request must not be rendered. If it is the first one, the provider would store the
    shortened history. Each later one has only new messages, and so no history to render.
    """
    # The field that names the history may be in the body or in one of its objects.
    inner = (body[name] for name in _HOLDERS if isinstance(body.get(name), Mapping))
    return any(body.get(name) for name in FIELDS) or any(map(is_kept_by_provider, inner))


def has_references(body: Mapping[str, Any]) -> bool:
    """Return whether a Responses request has references to items that the provider stores."""
    items = body.get("input")
    return isinstance(items, list) and any(map(_is_reference, items))


def _is_reference(item: Any) -> bool:
    """Return whether an item is a reference to a stored item.

    The API lets a reference omit its type. Then it has an `id`, but neither role nor content.
    """
    if not isinstance(item, Mapping):
        return False
    kind = item.get("type")
    return kind == "item_reference" or (
        kind is None and bool(item.get("id")) and not item.keys() & {"role", "content"}
    )
