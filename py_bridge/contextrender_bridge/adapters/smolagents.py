"""smolagents: an agent's class that fits each model call's history into a budget.

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
    """Return a subclass of an agent's class, with these settings of `Planner`.

    It has the same name, because smolagents saves agents by their class's name.
    """
    extra = {"planner": Planner(*args, **settings), "__module__": agent.__module__}
    return type(agent.__name__, (_ContextRenderMixin, agent), extra)


class _ContextRenderMixin(MultiStepAgent):
    """A mixin, before an agent's class, that renders the memory of each model call."""

    planner: ClassVar[Planner]

    def write_memory_to_messages(self, summary_mode: bool = False) -> list[ChatMessage]:
        """Return the rendered messages of the memory."""
        messages: list[ChatMessage] = super().write_memory_to_messages(summary_mode)
        # A summary has no system prompt, without which it would be another session.
        prompt = self.memory.system_prompt.to_messages() if summary_mode else []
        return self.planner.fail_open(lambda history: self._render(prompt, history), messages)

    def _render(self, prompt: list[ChatMessage], messages: list[ChatMessage]) -> list[ChatMessage]:
        """Return the rendered messages; `prompt` precedes them in the recorded history."""
        chat, places = _chat_messages([*prompt, *messages])
        rendered = self.planner.render(chat)
        if rendered is None:
            return messages
        remaining = (
            _render_message(message, rendered, place, len(chat[place].get("tool_calls", ())))
            for message, place in zip(messages, places[len(prompt) :], strict=True)
        )
        return [message for message in remaining if message is not None]


def _chat_messages(messages: list[ChatMessage]) -> tuple[list[Json], list[int]]:
    """Return the history as chat messages, and for each agent's message its chat message's number.

    The model's text and the calls of one step are one chat message. A step is one call, because its
    calls have one result together. An error or images are results of further calls.
    """
    chat: list[Json] = []
    places: list[int] = []
    assistant_place = -1  # of the assistant's message whose results follow; -1 if there is none
    answered_calls = 0
    for message in messages:
        content = _content(message.content)
        has_assistant = assistant_place >= 0
        if message.role == MessageRole.TOOL_CALL:
            if not has_assistant or assistant_place != len(chat) - 1:
                assistant_place, answered_calls = len(chat), 0
                chat.append({"role": "assistant", "content": None})
            chat[assistant_place]["tool_calls"] = [_call(assistant_place, 0, plain_text(content))]
            places.append(assistant_place)
            continue
        places.append(len(chat))
        if has_assistant and (message.role == MessageRole.TOOL_RESPONSE or _is_images(content)):
            calls = chat[assistant_place].setdefault("tool_calls", [])
            if answered_calls == len(calls):
                calls.append(_call(assistant_place, answered_calls, ""))
            call_id = {"tool_call_id": calls[answered_calls]["id"]}
            answered_calls += 1
            chat.append({"role": "tool", "content": content, **call_id})
            continue
        chat.append({"role": ROLES.get(message.role, "user"), "content": content})
        assistant_place = len(chat) - 1 if message.role == MessageRole.ASSISTANT else -1
        answered_calls = 0
    return chat, places


def _call(assistant_place: int, number: int, text: str) -> Json:
    """Return the call that a text describes, with its name and arguments if it is only one.

    Its id says that it is call `number` of the assistant's message at that place.
    """
    name, arguments = CALL_NAME, text
    try:
        (call,) = ast.literal_eval(text.removeprefix(CALLS))
        name, arguments = call["function"]["name"], call["function"]["arguments"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        pass
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, default=str)
    function = {"name": str(name), "arguments": arguments}
    return {"id": f"step-{assistant_place}-{number}", "type": "function", "function": function}


def _content(content: Any) -> Any:
    """Return the content as JSON, with images by their digests."""
    return content if isinstance(content, str) else json.loads(json.dumps(content, default=_digest))


def _digest(image: Any) -> str:
    data = image.tobytes() if hasattr(image, "tobytes") else repr(image).encode()
    return hashlib.sha256(data).hexdigest()


def _is_images(content: Any) -> bool:
    return isinstance(content, list) and all(part.get("type") == "image" for part in content)


def _render_message(
    message: ChatMessage, rendered: RenderedHistory, place: int, calls: int
) -> ChatMessage | None:
    """Return the message as rendered, None if it is omitted.

    `place` is the number of its chat message, `calls` the number of that message's calls.
    """
    # An agent that is asked for its final answer takes the first message for the system's.
    if message.role == MessageRole.SYSTEM:
        return message
    remaining = rendered.remaining(place, calls)
    if remaining is None:
        return None
    if message.role == MessageRole.TOOL_CALL:
        return message if remaining.calls else None
    if remaining.text is None:
        return message
    content = with_text(message.content, remaining.text)
    return replace(message, content=content) if content else None
