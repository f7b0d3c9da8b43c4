"""LangChain and LangGraph: a middleware that fits each model call's history into a budget.

agent = create_agent(model, tools, middleware=[ContextRenderMiddleware()])

The graph's own state keeps every message. The session's name is the thread's id, if there is one.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.config import get_config

from contextrender_bridge.adapters.planning import (
    Planner,
    RenderedHistory,
    chat_answer,
    chat_call,
    shown_parts,
)
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.contents import holds_text, with_text

ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
SIGNATURES = "__gemini_function_call_thought_signatures__"
"""The field of `langchain_google_genai` with the signatures of calls, by the calls' ids."""
REASONING = ("reasoning", "thinking", "redacted_thinking", "reasoning_content")
"""The types of content blocks with the model's reasoning."""
Handler = Callable[[ModelRequest], ModelResponse]
AsyncHandler = Callable[[ModelRequest], Awaitable[ModelResponse]]


class ContextRenderMiddleware(AgentMiddleware):
    """A middleware that renders the history of each model call, with the settings of `Planner`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__()
        self._planner = Planner(*args, **settings)

    def wrap_model_call(self, request: ModelRequest, handler: Handler) -> ModelResponse:
        """Call the model with the rendered messages."""
        return handler(self._planner.fail_open(self._render, request))

    async def awrap_model_call(self, request: ModelRequest, handler: AsyncHandler) -> ModelResponse:
        """Call the model with the rendered messages, for asynchronous agents."""
        return await handler(await self._planner.fail_open_async(self._render, request))

    def _render(self, request: ModelRequest) -> ModelRequest:
        """Return the request with the rendered messages."""
        chat = _chat_messages(request)
        return _render_request(request, self._planner.render(chat, session=_thread()))


def _thread() -> str | None:
    """Return the id of the current graph's thread, or None if it has none."""
    thread = get_config().get("configurable", {}).get("thread_id")
    return None if thread is None else str(thread)


def _chat_messages(request: ModelRequest) -> list[Json]:
    """Return the history as chat messages, the system message first if there is one."""
    system = _system_content(request)
    first = [] if system is None else [{"role": "system", "content": system}]
    return first + [_as_chat(message) for message in request.messages]


def _system_content(request: ModelRequest) -> Any:
    """Return the content of the system message, or None if the request has none."""
    # LangChain 1.0 has no `system_message`, only its text.
    message = getattr(request, "system_message", None)
    return request.system_prompt if message is None else message.content


def _as_chat(message: AnyMessage) -> Json:
    """Convert a message of LangChain to a chat message, and keep its tool calls if it has any."""
    if isinstance(message, ToolMessage):
        call_id = {"tool_call_id": message.tool_call_id}
        return {"role": "tool", "content": message.content, **call_id}
    if not isinstance(message, AIMessage):
        return {"role": ROLES.get(message.type, "user"), "content": message.content}
    # A message of the model has a text and calls. Other parts of it, such as reasoning, are not
    # recorded.
    calls = [
        chat_call(call["id"], call["name"], json.dumps(call["args"], default=str))
        for call in message.tool_calls
    ]
    return chat_answer(message.text, calls)


def _render_request(request: ModelRequest, rendered: RenderedHistory | None) -> ModelRequest:
    """Return the request with the rendered messages, or the request itself if all are shown."""
    if rendered is None:
        return request
    start = 0 if _system_content(request) is None else 1
    messages = (
        _render_message(message, rendered, start + number)
        for number, message in enumerate(request.messages)
    )
    return request.override(messages=[message for message in messages if message is not None])


def _render_message(
    message: AnyMessage, rendered: RenderedHistory, position: int
) -> AnyMessage | None:
    """Return the message as rendered, or None if it is omitted.

    `position` is the number of its chat message. If only a part of the message is shown, return a
    copy with the rendered text and arguments, and without the omitted tool calls and their content
    blocks. The signature of an omitted call moves to the first shown call.
    """
    # Find what the prompt shows of the message.
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    remaining = rendered.remaining_message(position, len(calls))
    if remaining is None:
        return None
    if remaining.is_unchanged:
        return message
    # Replace the text, and remove what belongs to omitted calls.
    call_ids = [call["id"] for call in calls]
    omitted_ids = {id for number, id in enumerate(call_ids) if number not in remaining.calls}
    cut_arguments = {call_ids[number]: cut for number, cut in remaining.calls.items() if cut}
    content = _shown_content(message.content, remaining.text, omitted_ids, cut_arguments)
    if not isinstance(message, AIMessage):
        return message.model_copy(update={"content": content})
    # Messages from OpenAI repeat their calls in `additional_kwargs`.
    extra = dict(message.additional_kwargs)
    extra.pop("tool_calls", None)
    if isinstance(signatures := extra.get(SIGNATURES), dict):
        extra[SIGNATURES] = _shown_signatures(call_ids, list(remaining.calls), signatures)
    shown_calls = [
        {**calls[number], "args": json.loads(cut)} if cut else calls[number]
        for number, cut in remaining.calls.items()
    ]
    update = {"content": content, "tool_calls": shown_calls, "additional_kwargs": extra}
    return message.model_copy(update=update)


def _shown_content(
    content: Any,
    text: str | None,
    omitted_ids: set[str | None],
    cut_arguments: Mapping[str | None, str],
) -> Any:
    """Return a message's content with `text` in place of its own text.

    If `text` is None, keep the own text. Omit the blocks of the calls with the `omitted_ids`, and
    the reasoning that led only to omitted blocks. `cut_arguments` maps the ids of some other calls
    to the JSON text that replaces the arguments in their blocks.
    """
    if not isinstance(content, list):
        return content if text is None else text
    texts = [block for block in content if holds_text(block)]
    shown_texts = iter(texts if text is None else with_text(texts, text))

    def show(block: str | Json) -> str | Json | None:
        """Return a block as it is shown, or None if it is omitted."""
        if holds_text(block):
            return next(shown_texts, None)
        call_id = _call_id(block)
        if call_id in omitted_ids:
            return None
        if cut := cut_arguments.get(call_id):
            # Responses' format has JSON text, Anthropic's an object.
            key, value = ("arguments", cut) if "arguments" in block else ("input", json.loads(cut))
            return {**cast(Json, block), key: value}
        return block

    return shown_parts(content, _is_reasoning, show)


def _is_reasoning(block: str | Json) -> bool:
    return isinstance(block, dict) and block.get("type") in REASONING


def _call_id(block: str | Json) -> str | None:
    """Return the id of the call in a content block, in Anthropic's or Responses' format.

    Return the block's own id, or None without one, if the block is no call.
    """
    return (block.get("call_id") or block.get("id")) if isinstance(block, dict) else None


def _shown_signatures(ids: list[str | None], numbers: list[int], signatures: Json) -> Json:
    """Return a dictionary that maps the ids of shown calls to their signatures.

    `ids` are the ids of all calls of a message, and `numbers` are the numbers of the shown ones.
    `signatures` maps the ids of all calls that are signed to their signatures.

    Gemini signs only the first of parallel calls, and requires that signature. If the signed call
    is omitted, give its signature to the first shown call.
    """
    if not numbers:
        return {}
    shown_ids = [ids[number] for number in numbers]
    shown_signatures = {str(id): signatures[id] for id in shown_ids if id in signatures}
    for omitted_id in ids[: numbers[0]]:
        if omitted_id in signatures:
            return {str(shown_ids[0]): signatures[omitted_id], **shown_signatures}
    return shown_signatures
