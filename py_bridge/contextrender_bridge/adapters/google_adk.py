"""Google's Agent Development Kit: a plugin that fits each model call's history into a budget.

    app = App(name="app", root_agent=agent, plugins=[ContextRenderPlugin(budget=6000)])

One agent alone takes its method: `LlmAgent(before_model_callback=plugin.before_model_callback)`.
ADK's session keeps every event. The session is ADK's.
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

AT = "annotations"
"""Where a message says which content it is, and a block which part; that is not recorded."""
MEDIA = ("image", "audio")


class ContextRenderPlugin(BasePlugin):
    """Shows the model what the service chooses of the history. Takes what `Planner` takes."""

    def __init__(self, *args: Any, name: str = "contextrender", **settings: Any) -> None:
        super().__init__(name=name)
        self._planner = Planner(*args, **settings)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Puts what is shown in place of the request's contents."""
        if llm_request.previous_interaction_id:
            # The history is with the provider.
            return None

        def fitted(contents: list[Content]) -> list[Content]:
            end = _end(contents, callback_context.user_content)
            body = {
                "system": _instruction(llm_request.config.system_instruction),
                "messages": [_message(number, contents[number]) for number in range(end)],
            }
            session = callback_context.session.id
            fit = self._planner.fit(body, session=session, dialect="messages")
            if not fit.changed:
                return contents
            return [*(_left(said, contents) for said in fit.messages), *contents[end:]]

        llm_request.contents = await self._planner.guarded_async(fitted, llm_request.contents)
        return None


def _message(number: int, content: Content) -> Json:
    """A content as a message of Anthropic's, a block for each part."""
    role = "assistant" if content.role == "model" else "user"
    blocks = [{**_block(part), AT: [number, at]} for at, part in enumerate(content.parts or [])]
    return {"role": role, "content": blocks, AT: number}


def _left(message: Json, contents: list[Content]) -> Content:
    """The content of what is left of a message, the same one where that is all.

    A message may have blocks of several: Gemini refuses two of the model's in a row.
    """
    own = contents[message[AT]]
    parts: list[Part] = []
    is_signed = False
    for block in message["content"]:
        number, at = block[AT]
        part = _part(contents[number].parts[at], block)
        if part.function_call and not is_signed:
            # Of calls side by side only the first is signed, and Gemini asks for it.
            first = next(part for part in contents[number].parts if part.function_call)
            if part.thought_signature != first.thought_signature:
                part = part.model_copy(update={"thought_signature": first.thought_signature})
            is_signed = True
        parts.append(part)
    if [id(part) for part in parts] == [id(part) for part in own.parts or []]:
        return own
    return own.model_copy(update={"parts": parts})


def _end(contents: list[Content], asked: Content | None) -> int:
    """How many contents come before those that ADK puts after the newest results of one request.

    Dynamic instructions and memories: they are not of the session, and move with every call.
    """
    end = len(contents)
    while end and contents[end - 1].role == "user" and not _has_results(contents[end - 1]):
        end -= 1
    is_passing = end and _has_results(contents[end - 1]) and asked not in contents[end:]
    return end if is_passing else len(contents)


def _has_results(content: Content) -> bool:
    return any(part.function_response for part in content.parts or [])


def _block(part: Part) -> Json:
    """A part as a block; thoughts stay with what they led to."""
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


def _part(part: Part, block: Json) -> Part:
    """The part, or a copy with what the block has in its place."""
    if block == {**_block(part), AT: block[AT]}:
        return part
    if block["type"] == "text":
        return part.model_copy(update={"text": block["text"]})
    if block["type"] == "tool_use":
        changed = part.function_call.model_copy(update={"args": block["input"]})
        return part.model_copy(update={"function_call": changed})
    response = {_key(part) or "result": plain_text(block["content"])}
    changed = part.function_response.model_copy(update={"response": response})
    return part.model_copy(update={"function_response": changed})


def _instruction(instruction: Any) -> str:
    """The text of a system instruction."""
    if isinstance(instruction, str):
        return instruction
    parts = getattr(instruction, "parts", None) or []
    return "\n".join(part.text for part in parts if part.text)


def _media(part: Any) -> Json:
    """What is no text, of a request or of a result."""
    shape = part.model_dump(mode="json", exclude_none=True, exclude={"thought_signature"})
    media = part.inline_data or part.file_data
    kind = ((media and media.mime_type) or "").split("/")[0]
    return {"type": kind if kind in MEDIA else "file", "source": shape}


def _result(part: Part) -> Json:
    result, key = part.function_response, _key(part)
    response = result.response or {}
    text = response[key] if key else json.dumps(response, default=str, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}, *map(_media, result.parts or [])]}


def _id(part: Any) -> str:
    """A call's or result's id. ADK takes its own away: then the name, as the latest is meant."""
    return part.id or part.name or "function"


def _key(part: Part) -> str:
    """What a response's only text is called; empty where it is not only a text."""
    response = part.function_response.response or {}
    ((key, text),) = response.items() if len(response) == 1 else (("", None),)
    return key if isinstance(text, str) else ""
