"""A labelled double: a model on loopback that answers one agent from a script.

It answers chat completions, Responses and Messages, streaming and plain. It counts its own turns,
independent of the history in the request, and keeps every request.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.scripted_model import (
    Model,
    ModelRequest,
    Reply,
    answer_messages,
    answer_responses,
    call,
    chat,
    chat_events,
    json_reply,
    stream,
)

Json = dict[str, Any]


@dataclass
class Call:
    """A step in which the model calls a tool."""

    name: str
    arguments: Json


@dataclass
class Say:
    """A step in which the model answers with text.

    The text is a call in runtimes whose calls are text.
    """

    text: str


Step = Call | Say


def has_tools(body: Json) -> bool:
    """Return whether a request has tools: requests for titles and summaries have none."""
    return bool(body.get("tools"))


@dataclass
class Script:
    """A model that answers an agent's requests with `steps` in order, and others with a title."""

    model: Model
    steps: Sequence[Step]
    is_agent: Callable[[Json], bool] = has_tools
    requests: list[Json] = field(default_factory=list)
    tokens: int = 9
    """The prompt tokens that chat completions report."""

    def __post_init__(self) -> None:
        self.model.answer = self.answer

    def answer(self, request: ModelRequest) -> Reply:
        """Return the next step in the format of the request's API."""
        if request.method != "POST" or "count_tokens" in request.path:
            return json_reply({"object": "list", "data": [{"id": "m"}], "input_tokens": 9})
        body = request.json
        step: Step = Say("A title")
        number = len(self.requests)
        if self.is_agent(body):
            self.requests.append(body)
            step = self.steps[number] if number < len(self.steps) else Say("Nothing is left.")
        write = next(write for end, write in _WRITERS.items() if end in request.path)
        return write(step, f"call_{number}", bool(body.get("stream")), self.tokens)

    def marks_in_requests(self, marks: Sequence[str]) -> list[set[int]]:
        """Return, for each request of the agent, the numbers of the marks that it contains."""
        texts = [json.dumps(body, ensure_ascii=False) for body in self.requests]
        return [{n for n, mark in enumerate(marks) if mark in text} for text in texts]


@dataclass
class ScriptWithWindow(Script):
    """A model whose window is `added_tokens` larger than the first request.

    Four bytes count as one token. `refused_count` is the number of prompts that were too long.
    """

    added_tokens: int = 5_000
    window: int = 0
    refused_count: int = 0

    def answer(self, request: ModelRequest) -> Reply:
        """Refuse a prompt that is too long, as a provider does, and answer others with a step."""
        size = len(request.body) // 4
        self.window = self.window or size + self.added_tokens
        if size <= self.window:
            return super().answer(request)
        self.refused_count += 1
        text = f"prompt is too long: {size} tokens > {self.window} maximum"
        error = {"type": "invalid_request_error", "message": text}
        return json_reply({"type": "error", "error": error}, 400)


def restored_results(requests: Sequence[set[int]]) -> set[int]:
    """Return the marks that a request had, a later request lacked, and a still later one had."""
    marks = set()
    for mark in set().union(*requests):
        places = [place for place, request in enumerate(requests) if mark in request]
        # If no request between the first and the last lacks the mark, there are as many places.
        if places[-1] - places[0] + 1 > len(places):
            marks.add(mark)
    return marks


def _chat(step: Step, name: str, streams: bool, tokens: int) -> Reply:
    text = step.text if isinstance(step, Say) else None
    calls = [call(name, step.name, **step.arguments)] if isinstance(step, Call) else None
    # Each reply has its own id, by which some runtimes distinguish messages.
    identity = {"id": f"chatcmpl-{name}"}
    if not streams:
        return json_reply(chat(text, calls) | identity)
    events = chat_events(text or "", calls, prompt=tokens)
    return stream([event | identity if isinstance(event, dict) else event for event in events])


def _responses(step: Step, name: str, streams: bool, _: int) -> Reply:
    if isinstance(step, Say):
        content = [{"type": "output_text", "text": step.text, "annotations": []}]
        kind: Json = {"type": "message", "role": "assistant", "content": content}
    else:
        kind = {"type": "function_call", "call_id": name, "name": step.name}
        kind["arguments"] = json.dumps(step.arguments)
    items = [{"id": f"item_{name}", "status": "completed", **kind}]
    return answer_responses(streams, items)


def _messages(step: Step, name: str, streams: bool, _: int) -> Reply:
    if isinstance(step, Say):
        block: Json = {"type": "text", "text": step.text}
        reason = "end_turn"
    else:
        block = {"type": "tool_use", "id": name, "name": step.name, "input": step.arguments}
        reason = "tool_use"
    return answer_messages(streams, [block], reason, f"msg_{name}")


_WRITERS = {"/chat/completions": _chat, "/responses": _responses, "/messages": _messages}
