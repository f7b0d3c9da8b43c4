"""Pydantic AI: a capability that fits each model request's history into a budget.

agent = Agent(model, capabilities=[ContextRenderCapability(budget=6000)])

The run keeps every message. The session's name is the conversation's id.

Long because requests and responses are converted and rendered in different ways.
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

from contextrender_bridge.adapters.planning import (
    Planner,
    RemainingMessage,
    RenderedHistory,
    chat_answer,
    chat_call,
    shown_parts,
)
from contextrender_bridge.base.wire import Json

_HISTORY_PARTS = (SystemPromptPart, UserPromptPart, ToolReturnPart, TextPart, ToolCallPart)
_SIGNATURE = "thought_signature"
# Results of these tools say which other tools the model can call.
_TOOL_DISCOVERY = frozenset({"tool-search", "capability-load"})
_MEDIA = {"image": "image_url", "audio": "input_audio", "video": "video_url"}


class ContextRenderCapability(AbstractCapability[Any]):
    """A capability that renders the history of each request, with the settings of `Planner`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__()
        self._planner = Planner(*args, **settings)

    # `before_model_request` and `ProcessHistory` overwrite the run's messages. This method changes
    # one request only.
    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Return the request with the rendered messages."""
        messages = request_context.messages
        if not messages or not isinstance(messages[-1], ModelRequest):
            # The provider continues a response that it began, so the request must not change.
            return request_context
        prompt = await self._planner.fail_open_async(
            lambda history: self._render(history, ctx.conversation_id), messages
        )
        return request_context if prompt is messages else replace(request_context, messages=prompt)

    async def wrap_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, handler: Any
    ) -> Any:
        """Call the model, with the rendered messages if `prepare_model_request` is never called."""
        if not hasattr(AbstractCapability, "prepare_model_request"):
            request_context = await self.prepare_model_request(ctx, request_context)
        return await handler(request_context)

    def _render(self, messages: list[ModelMessage], session: str | None) -> list[ModelMessage]:
        """Return the rendered messages, or `messages` itself if all are shown.

        If `session` is None, the session's name is made from the messages.
        """
        # Instructions are no part of a message. They may differ between requests, so record those
        # of the first message, as a system message.
        instructions = messages[0].instructions if isinstance(messages[0], ModelRequest) else None
        system = [{"role": "system", "content": instructions}] if instructions else []
        chat = [entry for message in messages for entry in _as_chat(message)]
        rendered = self._planner.render([*system, *chat], session=session)
        if rendered is None:
            return messages
        return _render_messages(messages, rendered, count(len(system)))


def _is_history(part: Any) -> bool:
    """Return whether a part is history. Other parts are always shown and not recorded.

    Among the other parts are thinking and the results by which tools are discovered.
    """
    is_history = isinstance(part, _HISTORY_PARTS)
    return is_history and getattr(part, "tool_kind", None) not in _TOOL_DISCOVERY


def _as_chat(message: ModelMessage) -> list[Json]:
    """Convert a message to chat messages: one for a response, one per part of a request.

    Leave out parts that are no history. A message without history has no chat messages.
    """
    parts = [part for part in message.parts if _is_history(part)]
    if isinstance(message, ModelRequest):
        return [_request_message(part) for part in parts]
    if not parts:
        return []
    # Join the texts of a response, and convert its calls.
    text = "\n".join(part.content for part in parts if isinstance(part, TextPart))
    calls = [
        chat_call(part.tool_call_id, part.tool_name, part.args_as_json_str())
        for part in parts
        if isinstance(part, ToolCallPart)
    ]
    return [chat_answer(text, calls)]


def _request_message(part: Any) -> Json:
    """Return a chat message for a part of a request."""
    if isinstance(part, ToolReturnPart):
        # Versions differ in how they write the result of a failed call.
        text = replace(part, outcome="success").model_response_str()
        content = _chat_content([text, *part.files])
        return {"role": "tool", "content": content, "tool_call_id": part.tool_call_id}
    role = "system" if isinstance(part, SystemPromptPart) else "user"
    return {"role": role, "content": _chat_content(_items(part.content))}


def _items(content: Any) -> Sequence[Any]:
    return [content] if isinstance(content, str) else content


def _chat_content(items: Sequence[Any]) -> str | list[Json]:
    """Return the items as chat content, with media as their identifiers and without cache marks."""
    if len(items) == 1 and isinstance(items[0], str):
        return items[0]
    return [_content_part(item) for item in items if not isinstance(item, CachePoint)]


def _content_part(item: Any) -> Json:
    """Return the part of chat content for a text, an image, or another file."""
    if _is_text(item):
        return {"type": "text", "text": item if isinstance(item, str) else item.content}
    # The kind is such as `image/png` for binary content, or `image-url`.
    kind = item.media_type if item.kind == "binary" else item.kind
    media = kind[:5]  # image, audio and video have five letters
    return {"type": _MEDIA.get(media, "file"), "identifier": item.identifier}


def _is_text(item: Any) -> bool:
    return isinstance(item, (str, TextContent))


def _render_messages(
    messages: Sequence[ModelMessage], rendered: RenderedHistory, positions: Iterator[int]
) -> list[Any]:
    """Return the rendered messages.

    `positions` yields the positions of the chat messages that `_as_chat` made of `messages`. Each
    part or message that has a chat message takes the next one.
    """
    prompt = []
    for message in messages:
        render = _render_request if isinstance(message, ModelRequest) else _render_response
        parts = render(message.parts, rendered, positions)
        if len(parts) == len(message.parts) and all(map(is_, parts, message.parts)):
            prompt.append(message)
        elif parts or message is messages[-1]:
            # Keep the last message even without parts: it has the instructions.
            prompt.append(replace(message, parts=parts))
    return prompt


def _render_request(
    parts: Sequence[Any], rendered: RenderedHistory, positions: Iterator[int]
) -> list[Any]:
    """Return the parts of a request that are shown, with substitute texts if the plan has any.

    Each history part is a chat message of its own, whose position is the next of `positions`.
    """
    sent_parts = []
    for part in parts:
        if not _is_history(part):
            sent_parts.append(part)
        elif (remaining := rendered.remaining_message(next(positions))) is not None:
            if remaining.text is not None:
                part = replace(part, content=_with_text(part, remaining.text))
            sent_parts.append(part)
    return sent_parts


def _with_text(part: Any, text: str) -> Any:
    """Return a part's content with `text` in place of its texts, followed by its media."""
    files = part.files if isinstance(part, ToolReturnPart) else _items(part.content)
    media = [item for item in files if not _is_text(item)]
    return [text, *media] if media else text


def _render_response(
    parts: Sequence[Any], rendered: RenderedHistory, positions: Iterator[int]
) -> list[Any]:
    """Return the parts of a response that are shown.

    All history parts of a response are one chat message, whose position is the next of `positions`.
    Remove omitted calls, and thinking after which nothing else is shown. If the plan has a
    substitute text, it replaces all text parts. Substitute arguments replace the arguments of their
    call. The provider's signature of an omitted call moves to the first shown call.
    """
    history_parts = [part for part in parts if _is_history(part)]
    if not history_parts:
        return list(parts)
    calls = [part for part in history_parts if isinstance(part, ToolCallPart)]
    remaining = rendered.remaining_message(next(positions), len(calls))
    if remaining is None:
        # All history parts are omitted, but other parts are still shown.
        remaining = RemainingMessage({}, "", is_unchanged=False)
    if remaining.is_unchanged:
        return list(parts)
    # Find the shown calls. The keys are the parts' identities, because two calls may be equal.
    shown_calls = {
        id(calls[number]): calls[number] if cut is None else replace(calls[number], args=cut)
        for number, cut in remaining.calls.items()
    }
    if remaining.calls:
        first = min(remaining.calls)
        key = id(calls[first])
        shown_calls[key] = _with_signature(shown_calls[key], omitted=calls[:first])
    # Find the text parts to show.
    texts = [part for part in history_parts if isinstance(part, TextPart)]
    if remaining.text is not None:
        # The first text part has the whole new text. Clear the id, or the provider substitutes its
        # stored copy of the part.
        changes = {"content": remaining.text, "id": None}
        if hasattr(TextPart, "citations"):  # Older versions have none.
            changes["citations"] = None
        texts = [replace(part, **changes) for part in texts[:1] if remaining.text]
    shown_texts = iter(texts)

    def show(part: Any) -> Any:
        """Return a part as it is shown, or None if it is omitted."""
        if not _is_history(part):
            return part
        if isinstance(part, TextPart):
            return next(shown_texts, None)
        return shown_calls.get(id(part))

    sent_parts = shown_parts(parts, lambda part: isinstance(part, ThinkingPart), show)
    # `shown_parts` keeps thinking at the end of a response. Without other parts, omit it, too.
    if all(isinstance(part, ThinkingPart) for part in sent_parts):
        return []
    return sent_parts


def _with_signature(call: Any, omitted: Sequence[Any]) -> Any:
    """Return the first shown call of a response, with the signature of an `omitted` call before it.

    Gemini signs only the first of parallel calls, and requires that signature. Return `call` itself
    if it has its own signature, or if no omitted call has one.
    """
    if (call.provider_details or {}).get(_SIGNATURE):
        return call
    signatures = ((part.provider_details or {}).get(_SIGNATURE) for part in omitted)
    signature = next(filter(None, signatures), None)
    if signature is None:
        return call
    return replace(call, provider_details={**(call.provider_details or {}), _SIGNATURE: signature})
