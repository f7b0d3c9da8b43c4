"""smolagents: agent classes that fit each model call's history into a budget.

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

from contextrender_bridge.adapters.planning import (
    Planner,
    RenderedHistory,
    chat_call,
    rendered_history,
)
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.contents import plain_text, with_text
from contextrender_bridge.dialects.observations import CALL_NAME

ROLES = {MessageRole.SYSTEM: "system", MessageRole.ASSISTANT: "assistant"}
CALLS = "Calling tools:\n"

Agent = TypeVar("Agent", bound=MultiStepAgent)


def with_contextrender(  # noqa: UP047 - for Python 3.10
    agent: type[Agent], *args: Any, **settings: Any
) -> type[Agent]:
    """Return a subclass of an agent class that renders the history, with these `Planner` settings.

    The subclass has the name of the class, because smolagents saves agents by class name.
    """
    extra = {"planner": Planner(*args, **settings), "__module__": agent.__module__}
    return type(agent.__name__, (_ContextRenderMixin, agent), extra)


class _ContextRenderMixin(MultiStepAgent):
    """A mixin that renders the agent's memory for each model call.

    It precedes the agent's class.
    """

    planner: ClassVar[Planner]
    contextrender_session: str | None = None
    """The session of the agent's last rendered history, None before the first one."""

    def write_memory_to_messages(self, summary_mode: bool = False) -> list[ChatMessage]:
        """Return the memory's messages, rendered. `summary_mode` is true for a call for a plan."""
        messages: list[ChatMessage] = super().write_memory_to_messages(summary_mode)
        # The messages for a plan lack the system prompt and earlier plans. So they would be
        # recorded as another conversation. Add the prompt, and name the agent's session.
        prompt = self.memory.system_prompt.to_messages() if summary_mode else []
        session = self.contextrender_session if summary_mode else None
        return self.planner.fail_open(
            lambda history: self._render(prompt, history, session), messages
        )

    def _render(
        self, prompt: list[ChatMessage], messages: list[ChatMessage], session: str | None
    ) -> list[ChatMessage]:
        """Render the messages, and return those to send.

        Record them after the messages `prompt`, which are not returned. If `session` is None, the
        session is found by the messages.
        """
        chat, positions = _chat_messages([*prompt, *messages])
        fit = self.planner.fit(chat, session=session)
        if fit.reply is not None:
            self.contextrender_session = fit.reply["session"]
        rendered = rendered_history(fit)
        if rendered is None:
            return messages
        remaining = (
            _render_message(message, rendered, position, len(chat[position].get("tool_calls", ())))
            for message, position in zip(messages, positions[len(prompt) :], strict=True)
        )
        return [message for message in remaining if message is not None]


def _chat_messages(messages: list[ChatMessage]) -> tuple[list[Json], list[int]]:
    """Convert a history to chat messages.

    Return the chat messages, and for each message of smolagents the position of its chat message.

    A step of smolagents has the model's text, one message with all its calls, and one result. After
    that, it may have an error or images. The text and the calls become one assistant message with
    one tool call. The result becomes its result. Each error or group of images becomes the result
    of another call, without arguments, because each result needs a call of its own.
    """
    chat: list[Json] = []
    positions: list[int] = []
    assistant_position = -1  # the position of the step's assistant message, -1 if there is none
    answered_count = 0  # the number of that message's calls that have their result
    for message in messages:
        content = _content(message.content)
        has_assistant = assistant_position >= 0
        # An error is a message with the role of a result, too.
        is_result = message.role == MessageRole.TOOL_RESPONSE or _is_images(content)
        if message.role == MessageRole.TOOL_CALL:
            # Add the call to the model's text before it, or to a new message if there is none.
            follows_assistant = has_assistant and assistant_position == len(chat) - 1
            if not follows_assistant:
                assistant_position, answered_count = len(chat), 0
                chat.append({"role": "assistant", "content": None})
            chat[-1]["tool_calls"] = [_call(assistant_position, 0, plain_text(content))]
            positions.append(assistant_position)
        elif has_assistant and is_result:
            # Add the result of the step's next call without a result.
            calls = chat[assistant_position].setdefault("tool_calls", [])
            if answered_count == len(calls):  # No call is left for this result.
                calls.append(_call(assistant_position, answered_count, ""))
            call_id = {"tool_call_id": calls[answered_count]["id"]}
            answered_count += 1
            positions.append(len(chat))
            chat.append({"role": "tool", "content": content, **call_id})
        else:
            # Add any other message. One of the model begins a step, and any other one ends it.
            is_assistant = message.role == MessageRole.ASSISTANT
            assistant_position, answered_count = len(chat) if is_assistant else -1, 0
            positions.append(len(chat))
            chat.append({"role": ROLES.get(message.role, "user"), "content": content})
    return chat, positions


def _call(assistant_position: int, number: int, text: str) -> Json:
    """Return the chat call for the text in which smolagents lists the calls of a step.

    If the text lists one call, use its name and arguments. Otherwise the name is `CALL_NAME`, and
    the text itself is the arguments. The id is made from the assistant message's position in the
    history and the call's `number` in that message.
    """
    call = _listed_call(text)
    function = call["function"] if call else {"name": CALL_NAME, "arguments": text}
    name, arguments = function["name"], function["arguments"]
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, default=str)
    return chat_call(f"step-{assistant_position}-{number}", str(name), arguments)


def _listed_call(text: str) -> Json | None:
    """Return the call in a text that lists the calls of a step; None unless it lists one call."""
    try:
        (call,) = ast.literal_eval(text.removeprefix(CALLS))
        _ = call["function"]["name"], call["function"]["arguments"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        return None
    return dict(call)


def _with_arguments(text: str, arguments: str) -> str:
    """Return a text that lists the calls of a step, with these arguments of its recorded call.

    If it does not list one call, its recorded arguments are the text itself.
    """
    call = _listed_call(text)
    if call is None:
        return arguments
    is_text = isinstance(call["function"]["arguments"], str)
    value = arguments if is_text else json.loads(arguments)
    return f"{CALLS}{[{**call, 'function': {**call['function'], 'arguments': value}}]}"


def _content(content: Any) -> Any:
    """Return the content as JSON values, with each image as its digest."""
    if isinstance(content, str):
        return content
    return json.loads(json.dumps(content, default=_digest))


def _digest(image: Any) -> str:
    data = image.tobytes() if hasattr(image, "tobytes") else repr(image).encode()
    return hashlib.sha256(data).hexdigest()


def _is_images(content: Any) -> bool:
    return isinstance(content, list) and all(part.get("type") == "image" for part in content)


def _render_message(
    message: ChatMessage, rendered: RenderedHistory, position: int, call_count: int
) -> ChatMessage | None:
    """Return the message as rendered, or None if it is omitted.

    The recorded history has it at this `position`, with `call_count` tool calls.
    """
    # For its final answer, an agent expects a system message at the beginning. So never omit one.
    if message.role == MessageRole.SYSTEM:
        return message
    remaining = rendered.remaining_message(position, call_count)
    if remaining is None:
        return None
    if message.role == MessageRole.TOOL_CALL:
        cut = remaining.calls.get(0)
        if cut is None:
            return message if remaining.calls else None
        text = _with_arguments(plain_text(message.content), cut)
        return replace(message, content=with_text(message.content, text))
    if remaining.text is None:
        return message
    content = with_text(message.content, remaining.text)
    return replace(message, content=content) if content else None
