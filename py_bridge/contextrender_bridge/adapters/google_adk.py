"""Google's Agent Development Kit: a plugin that fits each model call's history into a budget.

app = App(name="app", root_agent=agent, plugins=[ContextRenderPlugin(budget=6000)])

To render one agent only: `LlmAgent(before_model_callback=plugin.before_model_callback)`. ADK's
session keeps every event, and its id is the session's name.
"""

from __future__ import annotations

import json
from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.genai.types import Content, Part

from contextrender_bridge.adapters.planning import Planner
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.contents import plain_text

ORIGIN = "annotations"
"""A field that is added to each message and block, to find its original after the rendering.

For a message it has the number of the content; for a block, the numbers of the content and of the
part. It is not recorded.
"""
MEDIA = ("image", "audio")


class ContextRenderPlugin(BasePlugin):
    """A plugin that renders the history of each model call, with the settings of `Planner`."""

    def __init__(self, *args: Any, name: str = "contextrender", **settings: Any) -> None:
        super().__init__(name=name)
        self._planner = Planner(*args, **settings)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Replace the request's contents by the rendered ones, and return None.

        Convert the contents that are history to Anthropic's format, render them, and convert the
        rendered messages back. Keep the contents after the history. None makes ADK call the model.
        """
        if llm_request.previous_interaction_id:
            # The provider has the history, so the request does not contain it.
            return None

        def render(contents: list[Content]) -> list[Content]:
            """Return the contents to send: the rendered history and the contents after it."""
            # Convert the history to the body of a request of Anthropic's API, and render it.
            end = _history_length(contents, callback_context.user_content)
            body = {
                "system": _instruction(llm_request.config.system_instruction),
                "messages": [_message(number, contents[number]) for number in range(end)],
            }
            session = callback_context.session.id
            fit = self._planner.fit(body, session=session, dialect="messages")
            if not fit.changed:
                return contents
            # Convert the rendered messages back.
            rendered = (_render_content(message, contents) for message in fit.messages)
            return [*rendered, *contents[end:]]

        llm_request.contents = await self._planner.fail_open_async(render, llm_request.contents)
        return None


def _message(number: int, content: Content) -> Json:
    """Return content `number` as a message of Anthropic's API, with a block for each part.

    The message and its blocks get the field `ORIGIN`, by which their originals are found again.
    """
    role = "assistant" if content.role == "model" else "user"
    blocks = []
    for part_number, part in enumerate(content.parts or []):
        blocks.append({**_block(part), ORIGIN: [number, part_number]})
    return {"role": role, "content": blocks, ORIGIN: number}


def _render_content(message: Json, contents: list[Content]) -> Content:
    """Convert a rendered message back to a content; return the original one if it is unchanged.

    `contents` are the request's. A message may have blocks of several contents, because rendering
    joins neighbouring messages of the model: Gemini refuses two in a row. The first shown call gets
    the signature that Gemini requires.
    """
    # Convert each block back, from the part that its origin names.
    original = contents[message[ORIGIN]]
    parts: list[Part] = []
    has_call = False
    for block in message["content"]:
        number, part_number = block[ORIGIN]
        original_parts = contents[number].parts
        part = _render_part(original_parts[part_number], block)
        if part.function_call and not has_call:
            part = _with_signature(part, original_parts)
            has_call = True
        parts.append(part)
    # Unchanged parts are the original objects.
    if [id(part) for part in parts] == [id(part) for part in original.parts or []]:
        return original
    return original.model_copy(update={"parts": parts})


def _with_signature(first_shown_call: Part, parts: list[Part]) -> Part:
    """Return the first shown call of a content, with the signature of the content's first call.

    Only the first of parallel calls is signed. If it is omitted, Gemini requires the signature on
    the first shown call. `parts` are all parts of the content.
    """
    signature = next(part for part in parts if part.function_call).thought_signature
    if first_shown_call.thought_signature == signature:
        return first_shown_call
    return first_shown_call.model_copy(update={"thought_signature": signature})


def _history_length(contents: list[Content], user_content: Content | None) -> int:
    """Return the number of contents that are the session's history.

    ADK adds dynamic instructions and memories after the newest results. They are not part of the
    session, and their place differs in each call. `user_content` is the user's newest message,
    which is history even if it follows results.
    """
    # `end` is the position after the newest results or answer.
    end = len(contents)
    while end and contents[end - 1].role == "user" and not _has_results(contents[end - 1]):
        end -= 1
    follows_results = end > 0 and _has_results(contents[end - 1])
    if not follows_results or user_content in contents[end:]:
        return len(contents)
    return end


def _has_results(content: Content) -> bool:
    return any(part.function_response for part in content.parts or [])


def _block(part: Part) -> Json:
    """Return a part as a content block of Anthropic's API.

    A thought becomes a block without text. It is shown if anything of the same answer is shown.
    """
    if part.function_call:
        call = part.function_call
        return {
            "type": "tool_use",
            "id": _id(call),
            "name": call.name or "",
            "input": call.args or {},
        }
    if part.function_response:
        return {"type": "tool_result", "tool_use_id": _id(part.function_response)} | _result(part)
    if part.thought:
        return {"type": "thinking"}
    return {"type": "text", "text": part.text} if part.text else _media(part)


def _render_part(part: Part, block: Json) -> Part:
    """Return the part, or a copy with the block's text or arguments if they differ."""
    # The block is unchanged if it is equal to the part's own block.
    if block == {**_block(part), ORIGIN: block[ORIGIN]}:
        return part
    if block["type"] == "text":
        return part.model_copy(update={"text": block["text"]})
    if block["type"] == "tool_use":
        call = part.function_call.model_copy(update={"args": block["input"]})
        return part.model_copy(update={"function_call": call})
    response = {_text_key(part) or "result": plain_text(block["content"])}
    result = part.function_response.model_copy(update={"response": response})
    return part.model_copy(update={"function_response": result})


def _instruction(instruction: Any) -> str:
    """Return the text of a system instruction."""
    if isinstance(instruction, str):
        return instruction
    parts = getattr(instruction, "parts", None) or []
    return "\n".join(part.text for part in parts if part.text)


def _media(part: Any) -> Json:
    """Return a block for a part that is not text. Its `source` has the part's fields."""
    fields = part.model_dump(mode="json", exclude_none=True, exclude={"thought_signature"})
    media = part.inline_data or part.file_data
    mime_type = (media.mime_type if media else None) or ""
    kind = mime_type.partition("/")[0]
    return {"type": kind if kind in MEDIA else "file", "source": fields}


def _result(part: Part) -> Json:
    """Return the field `content` of a result's block: the response's text, and the result's media.

    If the response is not a single text, its text is JSON.
    """
    result, key = part.function_response, _text_key(part)
    response = result.response or {}
    text = response[key] if key else json.dumps(response, default=str, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}, *map(_media, result.parts or [])]}


def _id(part: Any) -> str:
    """Return the id of a call or result, or its name if ADK removed the id."""
    return part.id or part.name or "function"


def _text_key(part: Part) -> str:
    """Return the key of a response that is a single text; otherwise an empty text."""
    response = part.function_response.response or {}
    if len(response) != 1:
        return ""
    ((key, value),) = response.items()
    return key if isinstance(value, str) else ""
