"""LangChain and LangGraph: a middleware that fits each model call's history into a budget.

    agent = create_agent(model, tools, middleware=[ContextRenderMiddleware()])

The graph's own state keeps every message. The session is the thread's id, if it has one.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.config import get_config

from contextrender_bridge.adapters.planning import Planner, RenderedHistory
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.contents import with_text

ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
Handler = Callable[[ModelRequest], ModelResponse]
AsyncHandler = Callable[[ModelRequest], Awaitable[ModelResponse]]


class ContextRenderMiddleware(AgentMiddleware):
    """Shows the model what the service chooses of the history. Takes what `Planner` takes."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__()
        self._planner = Planner(*args, **settings)

    def wrap_model_call(self, request: ModelRequest, handler: Handler) -> ModelResponse:
        """Calls the model with the messages that are shown."""
        return handler(self._planner.guarded(self._fitted, request))

    async def awrap_model_call(self, request: ModelRequest, handler: AsyncHandler) -> ModelResponse:
        """`wrap_model_call` for agents that are awaited."""
        return await handler(await self._planner.guarded_async(self._fitted, request))

    def _fitted(self, request: ModelRequest) -> ModelRequest:
        return _left(request, self._planner.shown(_chat(request), session=_thread()))


def _thread() -> str | None:
    thread = get_config().get("configurable", {}).get("thread_id")
    return None if thread is None else str(thread)


def _chat(request: ModelRequest) -> list[Json]:
    """The history as chat messages: the system's, if there is one, then one for each."""
    system = request.system_message
    first = [] if system is None else [{"role": "system", "content": system.content}]
    return first + [_as_chat(message) for message in request.messages]


def _as_chat(message: AnyMessage) -> Json:
    if isinstance(message, ToolMessage):
        called = {"tool_call_id": message.tool_call_id}
        return {"role": "tool", "content": message.content, **called}
    if not isinstance(message, AIMessage):
        return {"role": ROLES.get(message.type, "user"), "content": message.content}
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["args"], default=str)},
        }
        for call in message.tool_calls
    ]
    called = {"tool_calls": calls} if calls else {}
    return {"role": "assistant", "content": message.text, **called}


def _left(request: ModelRequest, shown: RenderedHistory | None) -> ModelRequest:
    """The request with the messages that are shown; the same where that is all of them."""
    if shown is None:
        return request
    start = 0 if request.system_message is None else 1
    left = (_left_of(m, shown, start + number) for number, m in enumerate(request.messages))
    return request.override(messages=[message for message in left if message is not None])


def _left_of(message: AnyMessage, shown: RenderedHistory, place: int) -> AnyMessage | None:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    staying = shown.of(place, len(calls))
    if staying is None or staying.whole:
        return message if staying else None
    content = (
        with_text(message.content, staying.text) if staying.text is not None else message.content
    )
    if not isinstance(message, AIMessage):
        return message.model_copy(update={"content": content})
    kept = [calls[number] for number in staying.calls]
    gone = {call["id"] for call in calls if call not in kept}
    if isinstance(content, list):
        content = [block for block in content if not _is_of(block, gone)]
    others = {k: v for k, v in message.additional_kwargs.items() if k != "tool_calls"}
    update = {"content": content, "tool_calls": kept, "additional_kwargs": others}
    return message.model_copy(update=update)


def _is_of(block: str | Json, calls: set[str | None]) -> bool:
    """Whether a content block is one of those calls, as Anthropic and Responses write them."""
    return isinstance(block, dict) and (block.get("call_id") or block.get("id")) in calls
