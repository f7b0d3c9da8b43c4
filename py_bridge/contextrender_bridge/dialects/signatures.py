"""Signatures that a provider attaches to the first tool call of a step, and checks there.

Gemini signs only the first of a model's parallel calls, and refuses a step whose first call has no
signature. So if that call is omitted, the first remaining call gets its signature.
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
"""The mark in a call's id after which LiteLLM repeats the signature."""


def signature_of(call: Any) -> tuple[Path, Any] | None:
    """Return the path of a call's signature in its fields, and the signature.

    If only the call's id has it, return the path at which another call should get it. Return None
    if the call has no signature.
    """
    # Look for a field with the signature, then for an id that contains it.
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
    """Return a copy of `call` with `signature` at `path`."""
    name, *inner_path = path
    if not inner_path:
        return {**call, name: signature}
    value = call.get(name)
    inner_fields = value if isinstance(value, dict) else {}
    return {**call, name: with_signature(inner_fields, tuple(inner_path), signature)}


def move_signature(calls: Sequence[Any], remaining: Mapping[int, Any]) -> dict[int, Any]:
    """Return the remaining calls of a step, after moving the signature of an omitted call.

    The provider refuses a step whose first call has no signature. `calls` are all calls of the
    step. `remaining` maps the number of each call to send to the call itself, which may be
    shortened. If the first of them has no signature, it gets the first one of the omitted calls
    before it. The returned dictionary is like `remaining`.
    """
    signed_calls = dict(remaining)
    if not signed_calls or len(signed_calls) == len(calls):  # none or all are sent
        return signed_calls
    first = min(signed_calls)
    if not isinstance(signed_calls[first], dict) or signature_of(signed_calls[first]):
        return signed_calls
    for call in calls[:first]:
        if path_and_signature := signature_of(call):
            signed_calls[first] = with_signature(signed_calls[first], *path_and_signature)
            break
    return signed_calls


def move_reasoning(item: Json, omitted_ids: Sequence[Any], first_id: Any) -> Json:
    """Return a chat message without the `reasoning_details` of omitted calls.

    OpenRouter puts a call's id into the reasoning detail that signs the call. `first_id` is the id
    of the first remaining call, None if no call remains. If no detail has this id, the first detail
    of an omitted call gets it, so that the first call is signed.
    """
    details = item.get("reasoning_details")
    if not isinstance(details, list):
        return item
    call_ids = [detail.get("id") if isinstance(detail, Mapping) else None for detail in details]
    if not any(call_id in omitted_ids for call_id in call_ids if call_id):
        return item
    needs_detail = first_id is not None and first_id not in call_ids
    remaining: list[Any] = []
    # Remove the details of omitted calls. If the first remaining call needs a detail, keep the
    # first of these, with that call's id.
    for detail, call_id in zip(details, call_ids, strict=True):
        if not call_id or call_id not in omitted_ids:
            remaining.append(detail)
        elif needs_detail:
            remaining.append({**detail, "id": first_id})
            needs_detail = False
    return {**item, "reasoning_details": remaining}
