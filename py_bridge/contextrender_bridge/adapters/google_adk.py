"""Google's Agent Development Kit: a plugin that fits each model call's history into a budget.

    app = App(name="app", root_agent=agent, plugins=[ContextRenderPlugin(budget=6000)])

One agent alone takes its method: `LlmAgent(before_model_callback=plugin.before_model_callback)`.
ADK's session keeps every event. The session is ADK's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.genai.types import Content, Part

from contextrender_bridge.adapters.planning import Planner, Shown, Staying
from contextrender_bridge.base.wire import Json

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
            history = _History()
            history.read(llm_request, callback_context.user_content)
            shown = self._planner.shown(history.chat, session=callback_context.session.id)
            return contents if shown is None else history.left(shown)

        llm_request.contents = await self._planner.guarded_async(fitted, llm_request.contents)
        return None


@dataclass(frozen=True)
class _Place:
    """The chat message that a part is of, and which of its calls; `kind` is what of it."""

    kind: str
    message: int
    call: int = -1


@dataclass
class _History:
    """A request's contents, and the chat messages that they are."""

    chat: list[Json] = field(default_factory=list)
    contents: list[tuple[Content, list[_Place | None]]] = field(default_factory=list)

    def read(self, request: LlmRequest, asked: Content | None) -> None:
        """Reads the instruction and the contents; the user has `asked` with one of them."""
        if instruction := _instruction(request.config.system_instruction):
            self.chat.append({"role": "system", "content": instruction})
        end = _end(request.contents, asked)
        for number, content in enumerate(request.contents):
            passing: list[_Place | None] = [None] * len(content.parts or [])
            self.contents.append((content, self._read(content) if number < end else passing))

    def left(self, shown: Shown) -> list[Content]:
        """The contents that are shown."""
        kept: list[Content] = []
        is_gap = False
        for content, places in self.contents:
            left = self._left(content, places, shown)
            if left is None:
                is_gap = True
            elif is_gap and kept and kept[-1].role == left.role == "model":
                # Gemini refuses a call right after another content of the model's.
                parts = [*(kept[-1].parts or []), *(left.parts or [])]
                kept[-1] = left.model_copy(update={"parts": parts})
                is_gap = False
            else:
                kept.append(left)
                is_gap = False
        return kept

    def _read(self, content: Content) -> list[_Place | None]:
        """Results are messages of their own; a content's other parts are one."""
        role = "assistant" if content.role == "model" else "user"
        own = -1
        places: list[_Place | None] = []
        for part in content.parts or []:
            if part.function_response:
                places.append(_Place("result", len(self.chat)))
                self.chat.append(_result(part))
                continue
            said = None if part.function_call else _content(part)
            if said is None and not part.function_call:
                places.append(None)
                continue
            if own < 0:
                own = len(self.chat)
                self.chat.append({"role": role, "content": []})
            message = self.chat[own]
            if said is None:
                calls = message.setdefault("tool_calls", [])
                places.append(_Place("call", own, len(calls)))
                calls.append(_call(part))
            else:
                places.append(_Place("text" if part.text else "other", own))
                message["content"].append(said)
        if own >= 0:
            self.chat[own]["content"] = self.chat[own]["content"] or None
        return places

    def _left(self, content: Content, places: list[_Place | None], shown: Shown) -> Content | None:
        parts: list[Part] = []
        told: set[int] = set()
        is_empty = any(places)
        for part, place in zip(content.parts or [], places, strict=True):
            left: Part | None = part
            if place is not None:
                calls = len(self.chat[place.message].get("tool_calls", ()))
                left = _left_of(part, place, shown.of(place.message, calls), told)
                is_empty = is_empty and left is None
            if left is not None:
                parts.append(left)
        if is_empty:
            return None
        if [id(part) for part in parts] == [id(part) for part in content.parts or []]:
            return content
        return content.model_copy(update={"parts": _signed(parts, content.parts or [])})


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


def _left_of(part: Part, place: _Place, staying: Staying | None, told: set[int]) -> Part | None:
    """The part, shortened if the plan says so. `told`: messages whose text is there."""
    if staying is None:
        return None
    if place.kind == "call":
        return part if place.call in staying.calls else None
    if staying.text is None or place.kind == "other":
        return part
    if place.kind == "result":
        response = {_key(part) or "result": staying.text}
        changed = part.function_response.model_copy(update={"response": response})
        return part.model_copy(update={"function_response": changed})
    if not staying.text or place.message in told:
        return None
    told.add(place.message)
    return part.model_copy(update={"text": staying.text})


def _signed(parts: list[Part], before: list[Part]) -> list[Part]:
    """Of calls side by side only the first is signed, and Gemini asks for it: so the new first."""
    first = next((n for n, part in enumerate(parts) if part.function_call), None)
    signed = next((part for part in before if part.function_call), None)
    if first is None or signed is None or parts[first].thought_signature:
        return parts
    update = {"thought_signature": signed.thought_signature}
    return [*parts[:first], parts[first].model_copy(update=update), *parts[first + 1 :]]


def _instruction(instruction: Any) -> str:
    """The text of a system instruction."""
    if isinstance(instruction, str):
        return instruction
    parts = getattr(instruction, "parts", None) or []
    return "\n".join(part.text for part in parts if part.text)


def _content(part: Part) -> Json | None:
    """A part as chat content; None for thoughts, which stay with what they led to."""
    if part.thought:
        return None
    if part.text:
        return {"type": "text", "text": part.text}
    shape = part.model_dump(mode="json", exclude_none=True, exclude={"text", "thought_signature"})
    media = part.inline_data or part.file_data
    return _media(media.mime_type, shape) if media else shape or None


def _media(kind: str | None, shape: Json) -> Json:
    kind = (kind or "").split("/")[0]
    return {"type": kind if kind in MEDIA else "file", "source": shape}


def _call(part: Part) -> Json:
    call = part.function_call
    arguments = json.dumps(call.args or {}, default=str, ensure_ascii=False)
    function = {"name": call.name or "", "arguments": arguments}
    return {"id": _id(call), "type": "function", "function": function}


def _result(part: Part) -> Json:
    result = part.function_response
    key = _key(part)
    response = result.response or {}
    text = response[key] if key else json.dumps(response, default=str, ensure_ascii=False)
    content: list[Json] = [{"type": "text", "text": text}]
    for other in result.parts or []:
        shape = other.model_dump(mode="json", exclude_none=True)
        media = other.inline_data or other.file_data
        content.append(_media(media.mime_type, shape) if media else shape)
    return {"role": "tool", "tool_call_id": _id(result), "content": content}


def _id(part: Any) -> str:
    """A call's or result's id. ADK takes its own away: then the name, as the latest is meant."""
    return part.id or part.name or "function"


def _key(part: Part) -> str:
    """What a response's only text is called; empty where it is not only a text."""
    response = part.function_response.response or {}
    ((key, text),) = response.items() if len(response) == 1 else (("", None),)
    return key if isinstance(text, str) else ""
