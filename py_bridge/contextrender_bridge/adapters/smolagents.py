"""smolagents: an agent's class whose model calls fit their history into a budget.

    Agent = with_contextrender(CodeAgent, budget=6000)
    agent = Agent(tools=tools, model=model)

The agent's own memory keeps every step.
"""

from __future__ import annotations

import ast
import hashlib
import json
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from smolagents import ChatMessage, MessageRole, MultiStepAgent

from contextrender_bridge.adapters.planning import Planner, RenderedHistory
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.contents import plain_text, with_text
from contextrender_bridge.dialects.observations import CALL_NAME

ROLES = {MessageRole.SYSTEM: "system", MessageRole.ASSISTANT: "assistant"}
CALLS = "Calling tools:\n"

Agent = TypeVar("Agent", bound=MultiStepAgent)


def with_contextrender(  # noqa: UP047 - for Python 3.10
    agent: type[Agent], *args: Any, **settings: Any
) -> type[Agent]:
    """A subclass of an agent's class; the rest is what `Planner` takes.

    It has the same name, which is what smolagents saves agents by.
    """
    extra = {"planner": Planner(*args, **settings), "__module__": agent.__module__}
    return type(agent.__name__, (ContextRenderMixin, agent), extra)


class ContextRenderMixin(MultiStepAgent):
    """Shows the model what the service chooses of the memory; goes before an agent's class."""

    planner: ClassVar[Planner]

    def write_memory_to_messages(self, summary_mode: bool = False) -> list[ChatMessage]:
        """The memory's messages that are shown."""
        messages: list[ChatMessage] = super().write_memory_to_messages(summary_mode)
        # A summary lacks the system prompt, without which it would be another session's.
        prompt = self.memory.system_prompt.to_messages() if summary_mode else []
        return self.planner.guarded(lambda whole: self._fitted(prompt, whole), messages)

    def _fitted(self, prompt: list[ChatMessage], messages: list[ChatMessage]) -> list[ChatMessage]:
        chat, places = _chat([*prompt, *messages])
        shown = self.planner.shown(chat)
        if shown is None:
            return messages
        left = (
            _left_of(message, shown, place, len(chat[place].get("tool_calls", ())))
            for message, place in zip(messages, places[len(prompt) :], strict=True)
        )
        return [message for message in left if message is not None]


def _chat(messages: list[ChatMessage]) -> tuple[list[Json], list[int]]:
    """The history as chat messages, and for each of the agent's own the number of its.

    What the model said and the calls of the same step are one. A step is one call, as its calls
    have one result together; where there is an error too, or images, each is a call's result.
    """
    chat: list[Json] = []
    places: list[int] = []
    speaker = -1
    answered = 0
    for message in messages:
        content = _content(message.content)
        if message.role == MessageRole.TOOL_CALL:
            if speaker != len(chat) - 1 or speaker < 0:
                speaker, answered = len(chat), 0
                chat.append({"role": "assistant", "content": None})
            chat[speaker]["tool_calls"] = [_call(speaker, 0, plain_text(content))]
            places.append(speaker)
            continue
        places.append(len(chat))
        if speaker >= 0 and (message.role == MessageRole.TOOL_RESPONSE or _is_images(content)):
            calls = chat[speaker].setdefault("tool_calls", [])
            if answered == len(calls):
                calls.append(_call(speaker, answered, ""))
            called = {"tool_call_id": calls[answered]["id"]}
            answered += 1
            chat.append({"role": "tool", "content": content, **called})
            continue
        chat.append({"role": ROLES.get(message.role, "user"), "content": content})
        speaker = len(chat) - 1 if message.role == MessageRole.ASSISTANT else -1
        answered = 0
    return chat, places


def _call(speaker: int, number: int, text: str) -> Json:
    """The call that a text tells; its own name and arguments if it is only one."""
    name, arguments = CALL_NAME, text
    try:
        (called,) = ast.literal_eval(text.removeprefix(CALLS))
        name, arguments = called["function"]["name"], called["function"]["arguments"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        pass
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, default=str)
    function = {"name": str(name), "arguments": arguments}
    return {"id": f"step-{speaker}-{number}", "type": "function", "function": function}


def _content(content: Any) -> Any:
    """Content as JSON has it: images by their digest."""
    return content if isinstance(content, str) else json.loads(json.dumps(content, default=_digest))


def _digest(image: Any) -> str:
    data = image.tobytes() if hasattr(image, "tobytes") else repr(image).encode()
    return hashlib.sha256(data).hexdigest()


def _is_images(content: Any) -> bool:
    return isinstance(content, list) and all(part.get("type") == "image" for part in content)


def _left_of(
    message: ChatMessage, shown: RenderedHistory, place: int, calls: int
) -> ChatMessage | None:
    # An agent that is asked for its final answer takes the first message for the system's.
    if message.role == MessageRole.SYSTEM:
        return message
    staying = shown.of(place, calls)
    if staying is None:
        return None
    if message.role == MessageRole.TOOL_CALL:
        return message if staying.calls else None
    if staying.text is None:
        return message
    content = with_text(message.content, staying.text)
    return replace(message, content=content) if content else None
