"""The part that all adapters share: it asks the service what to show in each model call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from contextrender_bridge.base.settings import DEADLINE
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client import ContextRender
from contextrender_bridge.client.fitting import RenderedRequest, reason_of
from contextrender_bridge.dialects import MessagePlan
from contextrender_bridge.dialects.chat import ItemTranscript
from contextrender_bridge.dialects.contents import with_text

T = TypeVar("T")
OMITTED = "Output: [not shown]"
"""The text that replaces an omitted result between two assistant messages."""


class Planner:
    """A client of the service with an agent's settings; safe between threads and event loops."""

    def __init__(
        self,
        client: ContextRender | None = None,
        *,
        session: str | None = None,
        budget: int | str | None = None,
        policy: str | None = None,
        parameters: Mapping[str, float] | None = None,
        deadline: float = DEADLINE,
        pinned_tools: Sequence[str] | None = None,
        pinned_calls: Sequence[str] | None = None,
        bypass_tools: Sequence[str] | None = None,
    ) -> None:
        """Create a planner that uses `client`. None means a new client of the local service.

        `session` is a name that replaces the runtime's own name of the session. The other settings
        are as in `ContextRender.fit`.
        """
        self.client = client or ContextRender()
        self._session = session
        self._settings: dict[str, Any] = {
            "budget": budget,
            "policy": policy,
            "parameters": parameters,
            "deadline": deadline,
            "pinned_tools": pinned_tools,
            "pinned_calls": pinned_calls,
            "bypass_tools": bypass_tools,
        }

    def fit(
        self,
        messages: Sequence[Json] | Mapping[str, Any],
        *,
        session: str | None = None,
        dialect: str = "chat",
    ) -> RenderedRequest:
        """Render a history or a request body, and return it. After a failure it is unchanged.

        `session` is the runtime's name of the session, which the planner's own setting overrides.
        If there is neither, the name is made from the first messages.
        """
        return self.client.fit(
            self._session or session or None, messages, dialect=dialect, **self._settings
        )

    def render(
        self, messages: Sequence[Json], *, session: str | None = None, dialect: str = "chat"
    ) -> RenderedHistory | None:
        """Return the rendered history of chat messages, or None if it is unchanged."""
        return rendered_history(self.fit(messages, session=session, dialect=dialect))

    def fail_open(self, render: Callable[[T], T], history: T) -> T:
        """Return `render(history)`, or `history` itself if `render` raises an exception.

        `fit` itself fails open, but an adapter may fail to convert a runtime's messages. Count such
        a failure.
        """
        try:
            return render(history)
        except Exception as failure:
            self.client.failures.add(reason_of(failure))
            return history

    async def fail_open_async(self, render: Callable[[T], T], history: T) -> T:
        """Run `fail_open` in a thread, so that the runtime's event loop is not blocked."""
        return await asyncio.to_thread(self.fail_open, render, history)


@dataclass(frozen=True)
class RemainingMessage:
    """A message as the prompt shows it.

    - `calls`: the numbers of its calls that are shown, each with the text that replaces its
      arguments, or None for its own arguments.
    - `text`: the substitute for its text; None for its own text, empty if no text is shown.
    - `is_unchanged`: all of the message is shown.
    """

    calls: Mapping[int, str | None]
    text: str | None
    is_unchanged: bool


@dataclass(frozen=True)
class RenderedHistory:
    """The plan of a prompt, with the positions of the runtime's messages in it.

    `positions` has an entry for each message of the runtime: the position of its canonical message,
    to which the plan refers, or None if the message could not be read.
    """

    plan: MessagePlan
    positions: Sequence[int | None]

    def remaining_message(self, message: int, call_count: int = 0) -> RemainingMessage | None:
        """Return what is shown of message number `message`, which has `call_count` tool calls.

        Return None if the message is omitted.
        """
        position = self.positions[message]
        if position is None:  # A message that cannot be read is always shown.
            return RemainingMessage(dict.fromkeys(range(call_count)), None, is_unchanged=True)
        part = self.plan.part(position)
        shown_calls = {call: part.calls[call] for call in range(call_count) if call in part.calls}
        if not part.is_shown:
            return RemainingMessage(shown_calls, "", is_unchanged=False) if shown_calls else None
        has_own_calls = shown_calls == dict.fromkeys(range(call_count))
        is_unchanged = part.text is None and has_own_calls
        return RemainingMessage(shown_calls, part.text, is_unchanged)


def rendered_history(fit: RenderedRequest) -> RenderedHistory | None:
    """Return the rendered history of chat messages, or None if it is unchanged."""
    if not fit.changed or fit.plan is None:
        return None
    transcript = cast(ItemTranscript, fit.transcript)
    return RenderedHistory(fit.plan, transcript.positions)


def chat_call(call_id: str | None, name: str, arguments: str) -> Json:
    """Return a tool call of a chat message. `arguments` is JSON text."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chat_answer(text: str, calls: Sequence[Json]) -> Json:
    """Return a chat message of the model with this text and these tool calls."""
    # Providers refuse an empty list of calls.
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


def shown_parts(
    parts: Sequence[Any], is_reasoning: Callable[[Any], bool], show: Callable[[Any], Any]
) -> list[Any]:
    """Return the shown parts of a message. `show` returns a part as it is shown, None if omitted.

    A provider refuses reasoning without the part that it led to. So if all parts between one
    reasoning and the next are omitted, omit the first reasoning, too.
    """
    sent_parts: list[Any] = []
    pending_reasoning: list[Any] = []  # the reasoning after the last shown part
    has_omitted = False  # since the last shown part or reasoning, a part was omitted
    for part in parts:
        if is_reasoning(part):
            if has_omitted:  # The pending reasoning led only to omitted parts.
                pending_reasoning = []
            pending_reasoning, has_omitted = [*pending_reasoning, part], False
        elif (sent_part := show(part)) is None:
            has_omitted = True
        else:
            sent_parts += [*pending_reasoning, sent_part]
            pending_reasoning, has_omitted = [], False
    return sent_parts if has_omitted else [*sent_parts, *pending_reasoning]


def fit_texts(
    planner: Planner,
    messages: Sequence[Json],
    *,
    instruction_count: int = 0,
    session: str | None = None,
) -> Sequence[Json]:
    """Render the messages of a runtime that sends results as text of the user.

    Return the messages to show, or `messages` itself if all are shown or rendering fails. The first
    `instruction_count` messages are always shown. After them, a user message that follows an
    assistant message is a result. A short line replaces an omitted result after a shown message of
    the model, because the roles must alternate.
    """

    def render(history: Sequence[Json]) -> Sequence[Json]:
        """Return the messages to show, or `history` itself if all are shown."""
        # Mark the results by a role of their own, and get the plan.
        chat = [_with_role(history, number, instruction_count) for number in range(len(history))]
        rendered = planner.render(chat, session=session, dialect="observations")
        if rendered is None:
            return history
        # Apply the plan to the runtime's messages, which keep their own roles.
        prompt: list[Json] = []
        for number, message in enumerate(history):
            remaining = rendered.remaining_message(number)
            if remaining is None:
                # Roles must alternate, so a line replaces a result after a message of the model.
                follows_assistant = prompt and prompt[-1].get("role") == "assistant"
                if follows_assistant and message.get("role") != "assistant":
                    prompt.append({**message, "content": OMITTED})
            elif remaining.text is None:  # shown unchanged
                prompt.append(message)
            elif remaining.text:  # empty if only calls are shown, which these messages lack
                content = with_text(message.get("content"), remaining.text)
                prompt.append({**message, "content": content})
        return prompt

    return planner.fail_open(render, messages)


def _with_role(messages: Sequence[Json], number: int, instruction_count: int) -> Json:
    """Return the message at position `number` with the role by which it is read.

    One of the first `instruction_count` messages is an instruction and gets the role `system`. A
    user message after an assistant message is a result and gets the role `tool-response`. Other
    messages keep their role.
    """
    message = messages[number]
    if number < instruction_count:
        return {**message, "role": "system"}
    is_first = number == instruction_count
    follows_assistant = not is_first and messages[number - 1].get("role") == "assistant"
    if follows_assistant and message.get("role") == "user":
        return {**message, "role": "tool-response"}
    return message
