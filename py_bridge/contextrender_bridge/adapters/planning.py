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
from contextrender_bridge.dialects.chat import ChatTranscript
from contextrender_bridge.dialects.contents import with_text
from contextrender_bridge.dialects.observations import ObservationTranscript

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
        """Return the history to send. It is unchanged after a failure (`ContextRender.fit`).

        `session` is the runtime's name of the session. If it is None, the name is made from the
        first messages.
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

        `fit` raises no error then, but an adapter may fail to read or write a runtime's messages.
        Such a failure is counted.
        """
        try:
            return render(history)
        except Exception as failure:
            self.client.failures.add(reason_of(failure))
            return history

    async def fail_open_async(self, render: Callable[[T], T], history: T) -> T:
        """Do the same as `fail_open`, for runtimes with an event loop."""
        return await asyncio.to_thread(self.fail_open, render, history)


@dataclass(frozen=True)
class RemainingMessage:
    """A message as the prompt shows it: the numbers of its shown calls, and its text.

    `text` is None if the message's own text is shown, and empty if no text is shown. `is_unchanged`
    is true if nothing is omitted.
    """

    calls: list[int]
    text: str | None
    is_unchanged: bool


@dataclass(frozen=True)
class RenderedHistory:
    """A plan for a runtime's messages.

    `positions` has the number of the chat message of each of the runtime's messages, None if it has
    none.
    """

    plan: MessagePlan
    positions: Sequence[int | None]

    def remaining(self, message: int, calls: int = 0) -> RemainingMessage | None:
        """Return what is shown of message number `message`, or None if it is omitted.

        `calls` is the number of the message's tool calls.
        """
        position = self.positions[message]
        if position is None:
            return RemainingMessage(list(range(calls)), None, is_unchanged=True)
        shown_calls = [call for call in range(calls) if self.plan.shows_call(position, call)]
        text = self.plan.text(position)
        if not self.plan.shows(position):
            return RemainingMessage(shown_calls, "", is_unchanged=False) if shown_calls else None
        is_unchanged = text is None and len(shown_calls) == calls
        return RemainingMessage(shown_calls, text, is_unchanged)


def rendered_history(fit: RenderedRequest) -> RenderedHistory | None:
    """Return the rendered history of chat messages, or None if it is unchanged."""
    if not fit.changed or fit.plan is None:
        return None
    transcript = cast("ChatTranscript | ObservationTranscript", fit.transcript)
    return RenderedHistory(fit.plan, transcript.positions)


def shown_parts(
    parts: Sequence[Any], is_reasoning: Callable[[Any], bool], show: Callable[[Any], Any]
) -> list[Any]:
    """Return the parts of a message as `show` returns them, without those that it makes None.

    A provider refuses reasoning without the part that it led to. So reasoning is returned if any
    part between it and the next reasoning is, or if there is none.
    """
    sent_parts: list[Any] = []
    pending: list[Any] = []
    has_omitted = False
    for part in parts:
        if is_reasoning(part):
            pending = [part] if has_omitted else [*pending, part]
            has_omitted = False
        elif (sent_part := show(part)) is None:
            has_omitted = True
        else:
            sent_parts += [*pending, sent_part]
            pending = []
    return sent_parts if has_omitted else [*sent_parts, *pending]


def fit_texts(
    planner: Planner, messages: Sequence[Json], *, instructions: int = 0, session: str | None = None
) -> Sequence[Json]:
    """Return the messages to show, for runtimes that send results as text of the user.

    Return `messages` itself if all are shown. The first `instructions` messages are instructions
    and always shown. After them, a user message that follows an assistant message is a result. An
    omitted result becomes a short line if the roles would otherwise not alternate.
    """

    def render(history: Sequence[Json]) -> Sequence[Json]:
        """Return the messages to show, or `history` itself if all are shown."""
        chat = [_with_role(history, number, instructions) for number in range(len(history))]
        rendered = planner.render(chat, session=session, dialect="observations")
        if rendered is None:
            return history
        prompt: list[Json] = []
        for number, message in enumerate(history):
            remaining = rendered.remaining(number)
            if remaining is None:
                # Many models require roles to alternate, so a line replaces an omitted result.
                follows_assistant = prompt and prompt[-1].get("role") == "assistant"
                if follows_assistant and message.get("role") != "assistant":
                    prompt.append({**message, "content": OMITTED})
            elif remaining.text is None:
                prompt.append(message)
            elif remaining.text:
                content = with_text(message.get("content"), remaining.text)
                prompt.append({**message, "content": content})
        return prompt

    return planner.fail_open(render, messages)


def _with_role(messages: Sequence[Json], number: int, instructions: int) -> Json:
    """Return a message with a role that shows whether it is a result or the user's own words."""
    message = messages[number]
    if number < instructions:
        return {**message, "role": "system"}
    follows_assistant = number > instructions and messages[number - 1].get("role") == "assistant"
    if follows_assistant and message.get("role") == "user":
        return {**message, "role": "tool-response"}
    return message
