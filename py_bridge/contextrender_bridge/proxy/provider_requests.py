"""What a caller may ask of other providers: models that the operator lists, and nothing fetched.

LiteLLM takes addresses in many places: some providers' model names are one, and it loads images
and files by their URL or path itself to send them on. A caller could so make this process open any
address it reaches. Only what is in the request itself is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

PREFIX = "litellm/"

FIELDS = frozenset(
    {
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stop",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
    }
)
"""Of a request only what the API has: LiteLLM's own options could name another address."""

_MODEL = re.compile(r"(?!.*//)[A-Za-z0-9][A-Za-z0-9._:@/-]{0,199}")
_MESSAGE = frozenset(
    {
        "cache_control",
        "content",
        "function_call",
        "name",
        "reasoning_content",
        "refusal",
        "role",
        "thinking_blocks",
        "tool_call_id",
        "tool_calls",
    }
)
_TOOLS = ("function", "custom")
_TEXTS = ("text", "refusal", "thinking", "redacted_thinking")
_LABELS = frozenset({"type", "detail", "format", "filename", "media_type"})
_INLINE = re.compile(r"data:[^,]*,")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")

Refusal = tuple[int, str, str]


def is_other(body: Mapping[str, Any]) -> bool:
    """Whether a request's model is another provider's."""
    model = body.get("model")
    return isinstance(model, str) and model.startswith(PREFIX)


def refusal_of(
    body: Mapping[str, Any], providers: Collection[str], *, allowed: bool
) -> Refusal | None:
    """The status, code and sentence that refuse a request; None where it may go on.

    `providers` are those listed: a provider's name, or `PROVIDER/MODEL`. `allowed`: the caller may
    use this process's keys.
    """
    model = body["model"][len(PREFIX) :]
    if not allowed:
        return 403, "not_allowed", "Other providers' models are not for this caller."
    if not _MODEL.fullmatch(model) or not {model, model.partition("/")[0]} & set(providers):
        return 403, "model_not_listed", "The operator lists other providers' models; not this one."
    if not _fetches_nothing(body):
        return 422, "not_inline", "Images and files come as data: URLs; messages and tools as text."
    return None


def _fetches_nothing(body: Mapping[str, Any]) -> bool:
    messages, tools = body.get("messages"), body.get("tools") or []
    if not isinstance(messages, list) or not isinstance(tools, list):
        return False
    return all(map(_is_plain_tool, tools)) and all(map(_is_plain_message, messages))


def _is_plain_tool(tool: Any) -> bool:
    return isinstance(tool, Mapping) and tool.get("type") in _TOOLS


def _is_plain_message(message: Any) -> bool:
    if not isinstance(message, Mapping) or not message.keys() <= _MESSAGE:
        return False
    content = message.get("content")
    if not isinstance(content, list):
        return content is None or isinstance(content, str)
    return all(map(_is_plain_part, content))


def _is_plain_part(part: Any) -> bool:
    if isinstance(part, str):
        return True
    if not isinstance(part, Mapping):
        return False
    return part.get("type") in _TEXTS or all(_is_inline(key, part[key]) for key in part)


def _is_inline(key: str, value: Any) -> bool:
    """Whether a value of a part that is not text holds its data itself."""
    if isinstance(value, Mapping):
        return all(_is_inline(inner, value[inner]) for inner in value)
    if not isinstance(value, str):
        return value is None or isinstance(value, (bool, int, float))
    if key in _LABELS:
        return "://" not in value
    if key in ("data", "file_data") and _BASE64.fullmatch(value):
        return True
    return bool(_INLINE.match(value))
