"""The usage in the replies of providers and gateways, in all their formats.

All formats name the same few counts. A count that cannot be read is unknown, not 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.model_table import rated
from contextrender_bridge.base.usage import Usage

NAMES = re.compile(rb'"usage"|"usageMetadata"|"usage_metadata"|"prompt_eval_count"')
"""A reply without any of these has no usage."""

_DIGITS = re.compile(r"\d+(?:[,_ ]\d{3})*(?:\.0+)?")
# A prompt with all of its tokens, and one without those that the cache had (Anthropic, Bedrock).
_ALL = ("prompt_tokens", "promptTokenCount", "prompt_token_count", "promptTokens")
_INPUT = ("input_tokens", "inputTokens", "prompt_eval_count")
_OUTPUT = (
    *("output_tokens", "completion_tokens", "outputTokens", "completionTokens"),
    *("candidatesTokenCount", "candidates_token_count", "eval_count"),
)
_THOUGHTS = ("thoughtsTokenCount", "thoughts_token_count")
_DETAILS = ("prompt_tokens_details", "input_tokens_details", "inputTokensDetails")
_CACHE_READ = ("cache_read_input_tokens", "cacheReadInputTokens", "cacheReadInputTokenCount")
_CACHE_WRITE = ("cache_creation_input_tokens", "cacheWriteInputTokens", "cacheWriteInputTokenCount")
_CACHE_WRITE_DETAILS = ("cache_write_tokens", "cache_creation_tokens")
_CACHED = (
    *("cached_tokens", "cachedTokens", "cachedInputTokens", "prompt_cache_hit_tokens"),
    *("cachedContentTokenCount", "cached_content_token_count"),
)
_TOTAL = ("total_tokens", "totalTokens", "totalTokenCount", "total_token_count")


def read_usage(kind: str, body: bytes) -> Usage | None:
    """Return the usage in a whole reply of that content type; None if it says none.

    Of several in a stream, the later ones count, but a 0 never replaces a count.
    """
    model, usage_fields = "", dict[str, Any]()
    for part in _parts(kind, body):
        for holder in _holders(part):
            model_name = holder.get("model") or holder.get("modelVersion")
            model = model_name if isinstance(model_name, str) else model
            if tier := holder.get("service_tier"):
                usage_fields["service_tier"] = tier
            for name, value in _usage_in(holder).items():
                if value is not None and (count_of(value) != 0 or name not in usage_fields):
                    usage_fields[name] = value
    usage = usage_of(model, usage_fields)
    return usage if usage and (usage.prompt or usage.output) else None


def usage_of(model: str, usage_fields: Mapping[str, Any]) -> Usage | None:
    """Return a call's usage, from the `usage` of any API; None if it has no count of the prompt.

    The model's name gets the call's rates (base.rates).
    """
    usage = _counts_of(model, usage_fields)
    return usage and replace(usage, model=rated(model, usage.prompt, usage_fields))


def count_of(value: object) -> int | None:
    """Return a count of tokens, written as a number or as a text; None for anything else."""
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = float(re.sub(r"[,_ ]", "", value.strip()))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return round(value) if math.isfinite(value) and value >= 0 else None


def _counts_of(model: str, fields: Mapping[str, Any]) -> Usage | None:
    """Return the usage in the fields of any format, None if they have no prompt."""
    output = (_first(fields, _OUTPUT) or 0) + (_first(fields, _THOUGHTS) or 0)
    prompt, uncached = _first(fields, _ALL), _first(fields, _INPUT)
    cache_counts = (_first(fields, _CACHE_READ), _first(fields, _CACHE_WRITE))
    if prompt is None and uncached is not None and cache_counts != (None, None):
        return _apart_from_cache(model, fields, uncached, output)
    if prompt is None and uncached is None and (total := _first(fields, _TOTAL)):
        prompt = max(total - output, 0)
    prompt = uncached if prompt is None else prompt
    return None if prompt is None else _including_cache(model, fields, prompt, output)


def _apart_from_cache(model: str, fields: Mapping[str, Any], uncached: int, output: int) -> Usage:
    """Return the usage of a format that counts the cache's tokens apart (Anthropic, Bedrock)."""
    cache_read, cache_write = _first(fields, _CACHE_READ) or 0, _first(fields, _CACHE_WRITE) or 0
    creation = fields.get("cache_creation")
    lifetimes = creation if isinstance(creation, Mapping) else {}
    cache_write_1h = _first(lifetimes, ("ephemeral_1h_input_tokens",)) or 0
    short = max(cache_write - cache_write_1h, 0)
    return Usage(model, uncached, cache_read, short, cache_write_1h, output)


def _including_cache(model: str, fields: Mapping[str, Any], prompt: int, output: int) -> Usage:
    """Return the usage of a format whose prompt tokens include those of the cache."""
    details: Mapping[str, Any] = next(
        (fields[name] for name in _DETAILS if isinstance(fields.get(name), Mapping)), {}
    )
    cache_read = _first(fields, _CACHE_READ)
    if cache_read is None:
        cache_read = _first(details, _CACHED)
    if cache_read is None:
        cache_read = _first(fields, _CACHED) or 0
    cache_read = min(cache_read, prompt)
    cache_write = _first(fields, _CACHE_WRITE) or _first(details, _CACHE_WRITE_DETAILS) or 0
    cache_write = min(cache_write, prompt - cache_read)
    return Usage(model, prompt - cache_read - cache_write, cache_read, cache_write, output=output)


def _first(usage_fields: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """Return the first of these counts that can be read; one above 0 if there is any."""
    counts = [count for name in names if (count := count_of(usage_fields.get(name))) is not None]
    return next((count for count in counts if count), counts[0] if counts else None)


def _parts(kind: str, body: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the reply, or those of its events or lines that may say its usage."""
    begin = body[:64].lstrip(b"\xef\xbb\xbf \r\n\t")
    if "event-stream" in kind or begin.startswith((b"data:", b"event:", b":")):
        texts = [line[5:] for line in body.splitlines() if line.startswith(b"data:")]
    elif "ndjson" in kind or "jsonl" in kind:
        texts = body.splitlines()
    else:
        texts = [body]
    for text in texts:
        if not NAMES.search(text):
            continue
        try:
            value = wire.loads(text.removeprefix(b"\xef\xbb\xbf"))
        except ValueError:
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Mapping):
                yield part


def _holders(part: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a reply that may have its model and usage, the outermost first."""
    yield part
    for name in ("response", "message", "metadata", "x_groq", "data"):
        if isinstance(inner := part.get(name), Mapping):
            yield inner
    # Moonshot puts it into the last choice of a stream.
    choices = part.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, Mapping):
            yield choice


def _usage_in(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in ("usage", "usageMetadata", "usage_metadata"):
        if isinstance(usage_fields := holder.get(name), Mapping):
            return usage_fields
    return holder if "prompt_eval_count" in holder else {}
