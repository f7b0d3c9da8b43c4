"""Pydantic AI: a capability that fits each model request's history into a budget.

    agent = Agent(model, capabilities=[ContextRenderCapability(budget=6000)])

The run's own messages stay whole. The session is the conversation's id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from operator import is_
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    CachePoint,
    ModelMessage,
    ModelRequest,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext

from contextrender_bridge.adapters.planning import Planner, RenderedHistory
from contextrender_bridge.base.wire import Json

_KNOWN = (SystemPromptPart, UserPromptPart, ToolReturnPart, TextPart, ToolCallPart)
# What these tools gave says which other tools the model has.
_OF_TOOLS = frozenset({"tool-search", "capability-load"})
_MEDIA = {"image": "image_url", "audio": "input_audio", "video": "video_url"}


class ContextRenderCapability(AbstractCapability[Any]):
    """Shows the model what the service chooses of the history. Takes what `Planner` takes."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__()
        self._planner = Planner(*args, **settings)

    # Unlike what `before_model_request` does (and `ProcessHistory`, which overwrites the run's
    # messages), what is left out here is left out of this request alone.
    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """The request with the messages that are shown."""
        messages = request_context.messages
        if not messages or not isinstance(messages[-1], ModelRequest):
            # The provider goes on with a response that it has begun.
            return request_context
        left = await self._planner.guarded_async(
            lambda whole: self._fitted(whole, ctx.conversation_id), messages
        )
        return request_context if left is messages else replace(request_context, messages=left)

    def _fitted(self, messages: list[ModelMessage], session: str | None) -> list[ModelMessage]:
        # Instructions may differ from request to request: the history begins with the first.
        instructions = messages[0].instructions if isinstance(messages[0], ModelRequest) else None
        system = [{"role": "system", "content": instructions}] if instructions else []
        chat = [said for message in messages for said in _as_chat(message)]
        shown = self._planner.shown([*system, *chat], session=session)
        return messages if shown is None else _left(messages, shown, count(len(system)))


def _is_known(part: Any) -> bool:
    """Whether a part is history; all others stay and are not recorded."""
    return isinstance(part, _KNOWN) and getattr(part, "tool_kind", None) not in _OF_TOOLS


def _as_chat(message: ModelMessage) -> list[Json]:
    """One chat message for a response, one for each part of a request."""
    known = [part for part in message.parts if _is_known(part)]
    if isinstance(message, ModelRequest):
        return [_given(part) for part in known]
    if not known:
        return []
    said = "\n".join(part.content for part in known if isinstance(part, TextPart))
    calls = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
        }
        for part in known
        if isinstance(part, ToolCallPart)
    ]
    called = {"tool_calls": calls} if calls else {}
    return [{"role": "assistant", "content": said, **called}]


def _given(part: Any) -> Json:
    if isinstance(part, ToolReturnPart):
        content = _content([part.model_response_str(wrap_if_error=False), *part.files])
        return {"role": "tool", "content": content, "tool_call_id": part.tool_call_id}
    role = "system" if isinstance(part, SystemPromptPart) else "user"
    return {"role": role, "content": _content(_items(part.content))}


def _items(content: Any) -> Sequence[Any]:
    return [content] if isinstance(content, str) else content


def _content(items: Sequence[Any]) -> str | list[Json]:
    """The content as chat's: media by what identifies them, and no marks for a cache."""
    if len(items) == 1 and isinstance(items[0], str):
        return items[0]
    return [_content_part(item) for item in items if not isinstance(item, CachePoint)]


def _content_part(item: Any) -> Json:
    if _is_text(item):
        return {"type": "text", "text": item if isinstance(item, str) else item.content}
    kind = item.media_type if item.kind == "binary" else item.kind
    return {"type": _MEDIA.get(kind[:5], "file"), "identifier": item.identifier}


def _is_text(item: Any) -> bool:
    return isinstance(item, (str, TextContent))


def _left(
    messages: Sequence[ModelMessage], shown: RenderedHistory, places: Iterator[int]
) -> list[Any]:
    """The messages that are shown; `places` are those of the chat messages they were read as."""
    left = []
    for message in messages:
        is_request = isinstance(message, ModelRequest)
        parts = (_request_left if is_request else _response_left)(message.parts, shown, places)
        if len(parts) == len(message.parts) and all(map(is_, parts, message.parts)):
            left.append(message)
        elif parts or message is messages[-1]:
            # The last one has the instructions, and what is sent ends with a request.
            left.append(replace(message, parts=parts))
    return left


def _request_left(parts: Sequence[Any], shown: RenderedHistory, places: Iterator[int]) -> list[Any]:
    left = []
    for part in parts:
        if not _is_known(part):
            left.append(part)
        elif (staying := shown.of(next(places))) is not None:
            text = staying.text
            left.append(part if text is None else replace(part, content=_with_text(part, text)))
    return left


def _with_text(part: Any, text: str) -> Any:
    files = part.files if isinstance(part, ToolReturnPart) else _items(part.content)
    others = [item for item in files if not _is_text(item)]
    return [text, *others] if others else text


def _response_left(
    parts: Sequence[Any], shown: RenderedHistory, places: Iterator[int]
) -> list[Any]:
    known = [part for part in parts if _is_known(part)]
    if not known:
        return list(parts)
    calls = [part for part in known if isinstance(part, ToolCallPart)]
    staying = shown.of(next(places), len(calls))
    if staying is not None and staying.whole:
        return list(parts)
    text = "" if staying is None else staying.text
    kept = {id(calls[number]) for number in (staying.calls if staying else ())}
    left = []
    for part in parts:
        if not isinstance(part, TextPart):
            left += [part] if id(part) in kept or not _is_known(part) else []
        elif text is None:
            left.append(part)
        elif text:
            # With its id the provider would show what it stored of the part.
            left.append(replace(part, content=text, id=None, citations=None))
            text = ""
    # Thinking stays while anything that it led to stays.
    return left if any(not isinstance(part, ThinkingPart) for part in left) else []
