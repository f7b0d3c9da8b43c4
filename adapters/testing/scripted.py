"""A labelled double: a model on loopback that plays one agent's part from a script.

It speaks chat completions, Responses and Messages, streaming and plain. It counts its own turns,
whatever of the history it is sent, and keeps every request.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.scripted_model import (
    Asked,
    Model,
    Reply,
    answer_messages,
    answer_responses,
    call,
    chat,
    chat_events,
    stream,
    whole,
)

Json = dict[str, Any]


@dataclass
class Call:
    """The model calls a tool."""

    name: str
    arguments: Json


@dataclass
class Say:
    """The model says something: a turn's end, or, where calls are text, a call."""

    text: str


Step = Call | Say


def has_tools(body: Json) -> bool:
    """Whether a request is the agent's own, and none for a title or a summary."""
    return bool(body.get("tools"))


@dataclass
class Script:
    """Answers an agent's requests with `steps` in turn; others with a word."""

    model: Model
    steps: Sequence[Step]
    is_agent: Callable[[Json], bool] = has_tools
    asked: list[Json] = field(default_factory=list)
    tokens: int = 9
    """What chat completions say that their prompt had."""

    def __post_init__(self) -> None:
        self.model.answer = self.answer

    def answer(self, asked: Asked) -> Reply:
        """The next step, as this API says it."""
        if asked.method != "POST" or "count_tokens" in asked.path:
            return whole({"object": "list", "data": [{"id": "m"}], "input_tokens": 9})
        body = asked.json
        step: Step = Say("A title")
        number = len(self.asked)
        if self.is_agent(body):
            self.asked.append(body)
            step = self.steps[number] if number < len(self.steps) else Say("Nothing is left.")
        speak = next(say for end, say in _SPEAKERS.items() if end in asked.path)
        return speak(step, f"call_{number}", bool(body.get("stream")), self.tokens)

    def seen(self, marks: Sequence[str]) -> list[set[int]]:
        """For each of the agent's requests, which marks are in it."""
        texts = [json.dumps(body, ensure_ascii=False) for body in self.asked]
        return [{n for n, mark in enumerate(marks) if mark in text} for text in texts]


@dataclass
class Limited(Script):
    """A model that takes `room` tokens, of four bytes each, beside what the first request had."""

    room: int = 5_000
    window: int = 0
    refused: int = 0

    def answer(self, asked: Asked) -> Reply:
        """As a provider refuses what is too long; a step for what is not."""
        size = len(asked.body) // 4
        self.window = self.window or size + self.room
        if size <= self.window:
            return super().answer(asked)
        self.refused += 1
        said = f"prompt is too long: {size} tokens > {self.window} maximum"
        error = {"type": "invalid_request_error", "message": said}
        return whole({"type": "error", "error": error}, 400)


def restored(seen: Sequence[set[int]]) -> set[int]:
    """The marks that a request had, a later one had not, and one after that had again."""
    found = set()
    for mark in set().union(*seen):
        line = "".join("x" if mark in request else " " for request in seen)
        if " " in line.strip():
            found.add(mark)
    return found


def _chat(step: Step, name: str, streams: bool, tokens: int) -> Reply:
    text = step.text if isinstance(step, Say) else None
    calls = [call(name, step.name, **step.arguments)] if isinstance(step, Call) else None
    # As a provider's, the id is each reply's own: some runtimes tell messages apart by it.
    own = {"id": f"chatcmpl-{name}"}
    if not streams:
        return whole(chat(text, calls) | own)
    events = chat_events(text or "", calls, prompt=tokens)
    return stream([event | own if isinstance(event, dict) else event for event in events])


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


_SPEAKERS = {"/chat/completions": _chat, "/responses": _responses, "/messages": _messages}
