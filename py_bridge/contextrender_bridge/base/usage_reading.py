"""Reads the usage in the replies of providers and gateways, in all their formats.

Long because there are many formats.

All formats have the same few counts, under different names. A reply whose prompt count is missing
or cannot be read has no usage, rather than a usage of 0.
"""

import codecs
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.model_table import SEARCH_ITEM, TOOL_ITEMS, add_rates
from contextrender_bridge.base.usage import ERROR_CODE, Usage

_NAMES = re.compile(rb'usage|"timings"|prompt_eval_count|invocationMetrics|billed_units', re.I)
"""A reply without any of these has no usage."""
_EVENT_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""The beginnings of a line in a stream of events."""
_CHARSET = re.compile(r"charset=[\"']?([\w-]+)", re.I)
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_HOLDERS = (
    *("response", "message", "metadata", "x_groq", "data", "result", "body", "chunk", "meta"),
    "delta",  # Cohere
)
"""Fields of a reply whose object may have the model and the usage."""
_MAX_DEPTH = 3
_USAGE_FIELDS = frozenset(
    {
        *("usage", "usagemetadata", "tokenusage", "totalusage", "timings", "billedunits"),
        "amazonbedrockinvocationmetrics",
    }
)

_DIGITS = re.compile(r"\d+(?:[,_ ]\d{3})*(?:\.0+)?")
# Formats spell the names of counts differently, so all are read in lower case, without `_` and `-`.
# `_PROMPT` counts the whole prompt. In some formats (Anthropic's), `_INPUT` is the prompt without
# its cached tokens.
_PROMPT = ("prompttokens", "prompttokencount")
_INPUT = ("inputtokens", "inputtokencount", "promptevalcount", "input")
_OUTPUT = (
    *("outputtokens", "completiontokens", "outputtokencount", "candidatestokencount"),
    *("evalcount", "predictedn", "output"),
)
_THOUGHTS = ("thoughtstokencount",)
_TOOL_PROMPT = ("tooluseprompttokencount",)
"""Gemini's count of the prompt tokens from its own tools, beside the other prompt tokens."""
_REASONING = ("completiontokensdetails", "outputtokensdetails")
_DETAILS = ("prompttokensdetails", "inputtokensdetails", "inputtokendetails", "inputtokens")
_CACHE_READ = ("cachereadinputtokens", "cachereadinputtokencount")
_CACHE_WRITE = (
    *("cachecreationinputtokens", "cachewriteinputtokens", "cachewriteinputtokencount"),
)
_CACHE_WRITE_DETAILS = (
    *("cachewritetokens", "cachecreationtokens", "cachecreationinputtokens", "cachewrite"),
    "cachecreation",  # LangChain
)
# The field of an object that counts the cache writes by lifetime, under `_HOUR` and `_MINUTES`.
_LIFETIMES = ("cachecreation", "cachecreationtokendetails")
_HOUR, _MINUTES = ("ephemeral1hinputtokens",), ("ephemeral5minputtokens",)
_CODEX_CACHED = "cachedinputtokens"
"""The cached tokens in Codex's files, whose input includes them."""
_BEDROCK_WRITES = "cachedetails"
"""Bedrock's list of cache writes, each with its lifetime."""
_CACHED = (
    *("cachedtokens", _CODEX_CACHED, "promptcachehittokens", "cachedcontenttokencount"),
    *("cacheread", "cachen", "numcachedtokens"),
)
_TOTAL = ("totaltokens", "totaltokencount")
Fields = Mapping[str, Any]


def read_usage(content_type: str, body: bytes) -> Usage | None:
    """Return the usage in a whole reply; None if it has none.

    A stream may have several usages. Later counts replace earlier ones, but a 0 replaces none.
    """
    model = ""
    usage_fields: dict[str, Any] = {}
    # Collect the model's name and the fields with usage from all objects of the reply.
    for part in _objects_in(content_type, body):
        for holder in _holders(part):
            model_name = holder.get("model") or holder.get("modelVersion")
            if isinstance(model_name, str):
                model = model_name
            if tier := holder.get("service_tier"):
                usage_fields["service_tier"] = tier
            if items := tool_items_in(holder):
                usage_fields[TOOL_ITEMS] = items
            # Keep the newest count of each name that is not 0.
            for name, value in _usage_in(holder):
                if value is not None and (count_of(value) != 0 or name not in usage_fields):
                    usage_fields[name] = value
    usage = usage_of(model, usage_fields)
    return usage if usage and (usage.prompt or usage.output) else None


def usage_of(model: str, usage_fields: Fields) -> Usage | None:
    """Return a call's usage from the usage record of any API; None if that counts no prompt.

    Calls are priced by their model's name. So add the call's rates, such as the one for a long
    prompt, to the name (base.model_table).
    """
    usage = _counts_of(model, _with_plain_names(usage_fields))
    return usage and replace(usage, model=add_rates(model, usage.prompt, usage_fields))


def count_of(value: object) -> int | None:
    """Return a count of tokens, written as a number or as a text; None for anything else."""
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = float(re.sub(r"[,_ ]", "", value.strip()))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return round(value) if math.isfinite(value) and value >= 0 else None


def _with_plain_names(fields: Fields) -> dict[str, Any]:
    """Return fields by their names in lower case, without `_` and `-`."""
    return {re.sub("[_-]", "", name).lower(): value for name, value in fields.items()}


def _counts_of(model: str, fields: Fields) -> Usage | None:
    """Return the usage in the fields of any format; None if they count no prompt.

    The names of `fields` are in lower case, without `_` and `-` (`_with_plain_names`).
    """
    # Find the count of the output and of the prompt.
    output = (_first_count(fields, _OUTPUT) or 0) + (_first_count(fields, _THOUGHTS) or 0)
    prompt, total = _first_count(fields, _PROMPT), _first_count(fields, _TOTAL)
    if prompt is None:
        input_tokens = _first_count(fields, _INPUT)
        # The input count excludes the cached tokens if these are counted beside it, except Codex's.
        if input_tokens is not None and _counts_cache(fields) and _CODEX_CACHED not in fields:
            return _usage_beside_cache(model, fields, input_tokens, output)
        if input_tokens is not None:
            prompt = input_tokens
        elif total:  # The prompt is the total without the output.
            prompt = max(total - output, 0)
        else:
            prompt = _sum_of_cached_and_other(fields)
    if prompt is not None:
        prompt += _first_count(fields, _TOOL_PROMPT) or 0
        output = _complete_output(model, fields, prompt, output, total)
        return _usage_including_cache(model, fields, prompt, output)
    for name in ("billedunits", "tokens"):  # Cohere's counts are in an inner object.
        if inner := _inner(fields, (name,)):
            return _counts_of(model, inner)
    return None


def _counts_cache(fields: Fields) -> bool:
    """Return whether fields count cached tokens under a name of Anthropic's or Bedrock's format."""
    counts = (_first_count(fields, _CACHE_READ), _first_count(fields, _CACHE_WRITE))
    return counts != (None, None) or bool(_inner(fields, _LIFETIMES))


def _complete_output(
    model: str, fields: Fields, prompt: int, output: int, total: int | None
) -> int:
    """Return the tokens of the output, including reasoning that the count `output` leaves out.

    `total` is the record's count of all tokens, which shows whether reasoning was left out.
    """
    reasoning = _first_count(_inner(fields, _REASONING), ("reasoningtokens",)) or 0
    if total == prompt + output + reasoning:  # xAI counts reasoning apart from the completion.
        return output + reasoning
    if total and "gemini" in model.lower():
        # Gateways leave out Gemini's thinking from the completion, but not from the total.
        return max(output, total - prompt)
    return output


def _sum_of_cached_and_other(fields: Fields) -> int | None:
    """Return the sum of the prompt's cached and other tokens (DeepSeek, llama.cpp).

    Return None if the other tokens are not counted.
    """
    for cached, remaining in (
        ("promptcachehittokens", "promptcachemisstokens"),
        ("cachen", "promptn"),
    ):
        if (count := count_of(fields.get(remaining))) is not None:
            return count + (count_of(fields.get(cached)) or 0)
    return None


def _usage_beside_cache(model: str, fields: Fields, uncached: int, output: int) -> Usage:
    """Return the usage in a format whose input count excludes cached tokens (Anthropic, Bedrock).

    `uncached` is that count.
    """
    # Cache writes are counted in all, or only by their lifetime.
    lifetimes = _inner(fields, _LIFETIMES)
    cache_read = _first_count(fields, _CACHE_READ) or 0
    cache_write_1h = _first_count(lifetimes, _HOUR) or _bedrock_hour_writes(fields)
    all_writes = _first_count(fields, _CACHE_WRITE)
    if all_writes is None:
        all_writes = cache_write_1h + (_first_count(lifetimes, _MINUTES) or 0)
    cache_write = max(all_writes - cache_write_1h, 0)
    return Usage(model, uncached, cache_read, cache_write, cache_write_1h, output)


def _bedrock_hour_writes(fields: Fields) -> int:
    """Return the tokens that Bedrock wrote to its cache for an hour."""
    writes = fields.get(_BEDROCK_WRITES)
    hour_writes = [
        count_of(write.get("inputTokens"))
        for write in (writes if isinstance(writes, list) else ())
        if isinstance(write, Mapping) and write.get("ttl") == "1h"
    ]
    return sum(filter(None, hour_writes))


def _usage_including_cache(model: str, fields: Fields, prompt: int, output: int) -> Usage:
    """Return the usage in a format whose prompt count includes the cached tokens.

    `prompt` is that count. No other count may exceed it.
    """
    # Some counts are in an inner object with details. Another one has the cache writes by lifetime.
    details = _inner(fields, _DETAILS)
    lifetimes = _inner(details, _LIFETIMES) or _inner(fields, _LIFETIMES)
    # Formats have the count of cached tokens in one of three places.
    read_counts = (
        _first_count(fields, _CACHE_READ),
        _first_count(details, _CACHED),
        _first_count(fields, _CACHED),
    )
    cache_read = min(next((count for count in read_counts if count is not None), 0), prompt)
    # Of the cache writes, some may be for an hour. The remaining tokens are uncached.
    all_writes = _first_count(fields, _CACHE_WRITE) or _first_count(details, _CACHE_WRITE_DETAILS)
    all_writes = min(all_writes or 0, prompt - cache_read)
    cache_write_1h = min(_first_count(lifetimes, _HOUR) or 0, all_writes)
    cache_write = all_writes - cache_write_1h
    uncached = prompt - cache_read - all_writes
    return Usage(model, uncached, cache_read, cache_write, cache_write_1h, output)


def _first_count(fields: Fields, names: tuple[str, ...]) -> int | None:
    """Return the first count above 0 among these fields. If all counts are 0, return 0.

    Return None if none of the fields has a count.
    """
    # A count may be in an object, as its `total`.
    values = [fields.get(name) for name in names]
    values = [value.get("total") if isinstance(value, Mapping) else value for value in values]
    counts = [count for value in values if (count := count_of(value)) is not None]
    if not counts:
        return None
    return next(filter(None, counts), 0)


def _inner(fields: Fields, names: tuple[str, ...]) -> Fields:
    """Return the first object among the fields with these names, its own names made plain.

    Return no fields if none of them is an object.
    """
    objects = (fields[name] for name in names if isinstance(fields.get(name), Mapping))
    return _with_plain_names(next(objects, {}))


def _objects_in(content_type: str, body: bytes) -> Iterator[Fields]:
    """Yield the JSON objects in a reply, which is one JSON text, a stream of events, or JSON lines.

    Events and lines in which no name of a usage field occurs are skipped.
    """
    body = _to_utf8(content_type, body)
    if not _NAMES.search(body):
        return
    texts = [body]
    if "event-stream" in content_type or body[:64].lstrip().startswith(_EVENT_FIELDS):
        texts = list(map(_data_in, _EVENT_END.split(body)))
    for text in texts:
        if not _NAMES.search(text):
            continue
        for value in _values_in(text):
            objects = value if isinstance(value, list) else [value]
            yield from (part for part in objects if isinstance(part, Mapping))


def _to_utf8(content_type: str, body: bytes) -> bytes:
    """Return a body in UTF-8, without a byte order mark.

    Its encoding is the charset in the content type, or UTF-16 if it begins with that mark. Bytes
    that cannot be decoded are replaced.
    """
    charset = _CHARSET.search(content_type)
    name = charset[1] if charset else "utf-8"
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        name = "utf-16"
    try:
        is_utf8 = codecs.lookup(name).name in ("utf-8", "ascii")
    except LookupError:
        is_utf8 = True
    plain = body if is_utf8 else body.decode(name, "replace").lstrip("\ufeff").encode()
    return plain.removeprefix(codecs.BOM_UTF8)


def _data_in(event: bytes) -> bytes:
    """Return the data lines of an event. Some servers put no empty line between two events."""
    return b"\n".join(line[5:] for line in event.splitlines() if line.startswith(b"data:"))


def _values_in(text: bytes) -> list[Any]:
    """Return the value of a JSON text, as a list of one.

    If it is not JSON as a whole, return the values of its lines that may have usage, None for a
    line that is not JSON.
    """
    value = _value_of(text)
    if value is not None:
        return [value]
    return [_value_of(line.lstrip(b"\x1e")) for line in text.splitlines() if _NAMES.search(line)]


def _value_of(text: bytes) -> Any:
    """Return the value of a JSON text; None if it is not JSON.

    Accept invalid UTF-8 and control characters. If the value is a string, read that string as JSON.
    """
    try:
        value = wire.loads(text)
    except ValueError:
        try:
            value = json.loads(text.decode("utf-8", "replace"), strict=False)
        except (ValueError, RecursionError):
            return None
    return _value_of(value.encode()) if isinstance(value, str) else value


def _holders(part: Fields, depth: int = 0) -> Iterator[Fields]:
    """Yield the objects in a part of a reply that may have the model and usage, outermost first."""
    yield part
    if depth >= _MAX_DEPTH:
        return
    inner_values = [part.get(name) for name in _HOLDERS]
    choices = part.get("choices")
    if isinstance(choices, list):  # Moonshot puts the usage into the last choice of a stream.
        inner_values += choices
    for value in inner_values:
        if isinstance(value, Mapping):
            yield from _holders(value, depth + 1)


def tool_items_in(holder: Fields) -> dict[str, int]:
    """Return the number of an answer's items of each type, from which tool calls are priced.

    OpenAI's items have any type, and callers look up the types of the tools that cost extra. Items
    of a web search that only open a page are not counted. Each of Gemini's search queries counts as
    an item of a web search.
    """
    output, candidates = holder.get("output"), holder.get("candidates")
    counts: Counter[str] = Counter()
    for item in output if isinstance(output, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get("type"), str):
            action = item.get("action")
            opens_page = isinstance(action, Mapping) and action.get("type", "search") != "search"
            if not (item["type"] == SEARCH_ITEM and opens_page):
                counts[item["type"]] += 1
    for candidate in candidates if isinstance(candidates, list) else ():
        grounding = candidate.get("groundingMetadata") if isinstance(candidate, Mapping) else None
        queries = grounding.get("webSearchQueries") if isinstance(grounding, Mapping) else None
        if isinstance(queries, list) and queries:
            counts[SEARCH_ITEM] += len(queries)
    return dict(counts)


def _usage_in(holder: Fields) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the usage in an object."""
    for name, value in holder.items():
        if isinstance(value, Mapping) and re.sub("[_-]", "", name).lower() in _USAGE_FIELDS:
            yield from value.items()
    if "prompt_eval_count" in holder:  # Ollama has the counts among the reply's other fields.
        yield from holder.items()


def read_error_code(body: bytes) -> str:
    """Return the code or the type in a provider's error; empty if it has none."""
    try:
        fields = wire.loads(body)
    except ValueError:
        return ""
    return error_code_of(fields) if isinstance(fields, dict) else ""


def error_code_of(fields: Fields) -> str:
    """Return the code or the type in the fields of a provider's error; empty if they have none.

    Never return the error's text, because it may repeat contents.
    """
    # The error is in the field `error`, or the fields themselves are the error.
    error = fields.get("error", fields)
    if not isinstance(error, dict):
        return ""
    names = [error.get(name) for name in ("code", "type", "status")]
    codes = [name for name in names if isinstance(name, str) and ERROR_CODE.fullmatch(name)]
    return next(filter(None, codes), "")
