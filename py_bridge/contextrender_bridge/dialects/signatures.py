"""Signatures that a provider attaches to one tool call of a step and checks for all of the step.

Gemini signs only the first of the calls that a model makes side by side, and refuses a step whose
first call has no signature. So if that call is omitted, the first call that stays takes its
signature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contextrender_bridge.base.wire import Json

Path = tuple[str, ...]
PATHS: tuple[Path, ...] = (
    # Gemini's chat completions, of Google and of most gateways.
    ("extra_content", "google", "thought_signature"),
    # LiteLLM, beside the call or inside its function.
    ("provider_specific_fields", "thought_signature"),
    ("function", "provider_specific_fields", "thought_signature"),
    # The OpenAI Agents SDK's and pydantic-ai's own fields.
    ("provider_data", "thought_signature"),
    ("provider_details", "thought_signature"),
    # Gateways that answer in another provider's format.
    ("thought_signature",),
    ("thoughtSignature",),
    ("function", "thought_signature"),
)
IN_ID = "__thought__"
"""LiteLLM also writes the signature behind this mark at the end of a call's id."""


def signature_of(call: Any) -> tuple[Path, Any] | None:
    """Return where a call has a signature, and the signature; None if it has none."""
    for path in PATHS:
        value = call
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if value:
            return path, value
    if isinstance(call, Mapping):
        for name in ("id", "call_id"):
            _, mark, signature = str(call.get(name) or "").partition(IN_ID)
            if mark and signature:
                return ("provider_specific_fields", "thought_signature"), signature
    return None


def with_signature(call: Json, path: Path, signature: Any) -> Json:
    """Return a copy of a call that has this signature at this place."""
    name, *inner = path
    if not inner:
        return {**call, name: signature}
    before = call.get(name)
    below = before if isinstance(before, dict) else {}
    return {**call, name: with_signature(below, tuple(inner), signature)}


def sign_first(calls: Sequence[Any], staying: Mapping[int, Any]) -> dict[int, Any]:
    """Return the calls that stay, by number; the first one is signed if an omitted one before it
    was.

    `calls` are all calls of one step, `staying` those of them that stay, as they are sent.
    """
    left = dict(staying)
    if not left or len(left) == len(calls):
        return left
    first = min(left)
    if not isinstance(left[first], dict) or signature_of(left[first]):
        return left
    for call in calls[:first]:
        if found := signature_of(call):
            left[first] = with_signature(left[first], *found)
            break
    return left


def point_reasoning(item: Json, omitted: Sequence[Any], first: Any) -> Json:
    """Return a chat message whose signed reasoning names a call that stays.

    OpenRouter's `reasoning_details` name the call that they belong to by its id. A detail of an
    omitted call belongs to the `first` call that stays, unless that one has its own; without any it
    goes.
    """
    details = item.get("reasoning_details")
    if not isinstance(details, list):
        return item
    ids = [detail.get("id") if isinstance(detail, Mapping) else None for detail in details]
    if not any(name in omitted for name in ids if name):
        return item
    takes = first is not None and first not in ids
    left: list[Any] = []
    for detail, name in zip(details, ids, strict=True):
        if not name or name not in omitted:
            left.append(detail)
        elif takes:
            left.append({**detail, "id": first})
            takes = False
    return {**item, "reasoning_details": left}
