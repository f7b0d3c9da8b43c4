"""Reads spans of model calls in OpenTelemetry's semantic conventions for GenAI.

Calls with the same `gen_ai.conversation.id` are one run. Without this attribute, the calls of a
trace are one run. The run has the history of the call with the most messages, and the usage of all
calls.
"""

import json
from collections.abc import Iterator
from typing import Any

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.run_reader import (
    RecordedRun,
    chat,
    items,
    mapping,
    second_of,
    tool_call,
)
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.usage_reading import count_of
from contextrender_bridge.base.wire import Json

SOURCE = "OpenTelemetry"


def spans_in(value: Json) -> Iterator[Json]:
    """Yield the spans of model calls in a JSON object: a document of OTLP, or one span.

    Their attributes are converted to a dict.
    """
    for resource in items(value.get("resourceSpans")):
        for scope in items(mapping(resource).get("scopeSpans")):
            for span in items(mapping(scope).get("spans")):
                yield from _span(dict(mapping(span)))
    if "resourceSpans" not in value:
        yield from _span(value)


class Traces:
    """Collects spans of model calls, and makes a run of each conversation."""

    def __init__(self, name: str) -> None:
        """Start without spans. `name` is the file's name, for spans without a trace."""
        self._name = name
        self._calls: dict[str, list[Json]] = {}

    def add(self, span: Json) -> None:
        """Add the span of one model call to the calls of its conversation or trace."""
        attributes = span["attributes"]
        key = attributes.get("gen_ai.conversation.id") or _id(span, "trace")
        self._calls.setdefault(str(key or self._name), []).append(span)

    def add_runs(self, audit_input: AuditInput) -> None:
        """Add a run for each conversation, with its longest history and the usage of its calls."""
        for key, calls in self._calls.items():
            calls.sort(key=_time)
            longest_call = max(calls, key=lambda call: len(_values(call, "input.messages")))
            run = RecordedRun(f"{self._name}:{key}", SOURCE, key)
            system = {"role": "system", "parts": _values(longest_call, "system_instructions")}
            answer = _values(longest_call, "output.messages")
            for message in (system, *_values(longest_call, "input.messages"), *answer):
                for chat_message in _as_chat(message):
                    run.add("chat", chat_message, 0.0)
            for call in calls:
                audit_input.add_usage(run, _id(call, "span"), _usage(call))
            audit_input.add_run(run)


def _span(span: Json) -> Iterator[Json]:
    """Yield the span, with its attributes as a dict, or nothing if it is not of a model call."""
    attributes = span.get("attributes")
    values = dict(mapping(attributes))
    if isinstance(attributes, list):  # OTLP, as in [{"key": NAME, "value": {"intValue": 5}}]
        for attribute in map(mapping, attributes):
            typed_value = mapping(attribute.get("value"))
            values[str(attribute.get("key"))] = next(iter(typed_value.values()), None)
    if any(name.startswith("gen_ai.usage.") or name == "gen_ai.input.messages" for name in values):
        yield {**span, "attributes": values}


def _id(span: Json, kind: str) -> str:
    """Return a span's id of a kind, "trace" or "span"; empty if it has none.

    It is in the span in OTLP JSON, and in the span's `context` in the JSON of the SDK.
    """
    context_id = mapping(span.get("context")).get(f"{kind}_id")
    return str(span.get(f"{kind}Id") or span.get(f"{kind}_id") or context_id or "")


def _values(span: Json, name: str) -> list[Any]:
    """Return the list in an attribute, such as "input.messages"; an empty list if there is none.

    The span has it as a list or as JSON text.
    """
    value = span["attributes"].get(f"gen_ai.{name}")
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return []
    return list(items(value))


def _as_chat(message: Any) -> Iterator[Json]:
    """Yield the chat messages of one GenAI message: one for each tool result, one for the rest."""
    fields = mapping(message)
    texts, calls = [], []
    for part in map(mapping, items(fields.get("parts"))):
        if part.get("type") == "text":
            texts.append(part.get("content"))
        elif part.get("type") == "tool_call":
            calls.append(tool_call(part.get("id"), part.get("name"), part.get("arguments")))
        elif part.get("type") == "tool_call_response":
            content = part.get("result", part.get("response"))
            text = content if isinstance(content, str) else json.dumps(content)
            yield {"role": "tool", "tool_call_id": str(part.get("id")), "content": text}
    if texts or calls:
        yield chat(fields.get("role"), texts, calls)


def _usage(span: Json) -> Usage:
    """Return a call's usage. The cached tokens are subtracted from the span's `input_tokens`."""
    attributes = span["attributes"]

    def count(name: str) -> int:
        """Return the number in a usage attribute; 0 if it is missing or no number."""
        return count_of(attributes.get(f"gen_ai.usage.{name}")) or 0

    cache_read, cache_write = count("cache_read.input_tokens"), count("cache_creation.input_tokens")
    model = attributes.get("gen_ai.response.model") or attributes.get("gen_ai.request.model") or ""
    uncached = max(count("input_tokens") - cache_read - cache_write, 0)
    return Usage(str(model), uncached, cache_read, cache_write, output=count("output_tokens"))


def _time(span: Json) -> float:
    """Return the Unix second at which a call began; 0 if it is unknown."""
    nanoseconds = span.get("startTimeUnixNano")
    if nanoseconds is not None and str(nanoseconds).isdecimal():
        return int(nanoseconds) / 1e9
    return second_of(span.get("start_time"))
