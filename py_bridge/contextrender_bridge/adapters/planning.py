"""The planner of every adapter: which messages, calls and results a model call shows."""

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
"""The text that replaces an omitted result between two messages of the assistant."""


class Planner:
    """A client of the service for one agent's sessions; safe between threads and event loops."""

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
        """Create a planner for `client`, by default the local service's.

        `session` overrides the runtime's name of the session. `ContextRender.fit` explains the
        other settings.
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
        """Return the history to send, unchanged after a failure (`ContextRender.fit`).

        `session` is the runtime's name of the session. Without one, the first messages name it.
        """
        return self.client.fit(
            self._session or session or None, messages, dialect=dialect, **self._settings
        )

    def render(
        self, messages: Sequence[Json], *, session: str | None = None, dialect: str = "chat"
    ) -> RenderedHistory | None:
        """Return the rendered history of messages of a chat dialect, None if it is unchanged."""
        fit = self.fit(messages, session=session, dialect=dialect)
        if not fit.changed or fit.plan is None:
            return None
        transcript = cast("ChatTranscript | ObservationTranscript", fit.transcript)
        return RenderedHistory(fit.plan, transcript.places)

    def fail_open(self, render: Callable[[T], T], history: T) -> T:
        """Return `render(history)`, or the runtime's history unchanged if `render` fails.

        `fit` itself does not fail, but an adapter may fail to read or write a runtime's messages.
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

    `text` is None if the message's own text is shown. `is_unchanged` is true if nothing is omitted.
    """

    calls: list[int]
    text: str | None
    is_unchanged: bool


@dataclass(frozen=True)
class RenderedHistory:
    """A plan for a runtime's messages, and the number of each one's chat message, if it has one."""

    plan: MessagePlan
    places: Sequence[int | None]

    def remaining(self, message: int, calls: int = 0) -> RemainingMessage | None:
        """Return what is shown of message number `message`, None if it is omitted.

        `calls` is the number of its tool calls.
        """
        place = self.places[message]
        if place is None:
            return RemainingMessage(list(range(calls)), None, is_unchanged=True)
        shown_calls = [call for call in range(calls) if self.plan.shows_call(place, call)]
        text = self.plan.text(place)
        if not self.plan.shows(place):
            return RemainingMessage(shown_calls, "", is_unchanged=False) if shown_calls else None
        is_unchanged = text is None and len(shown_calls) == calls
        return RemainingMessage(shown_calls, text, is_unchanged)


def fit_texts(
    planner: Planner, messages: Sequence[Json], *, instructions: int = 0, session: str | None = None
) -> Sequence[Json]:
    """Return the messages to show, for runtimes that send results as the user's text.

    Return `messages` itself if all are shown. The first `instructions` messages are no history.
    After them, the message that follows an assistant's is its result.
    """

    def render(history: Sequence[Json]) -> Sequence[Json]:
        chat = [_with_role(history, number, instructions) for number in range(len(history))]
        rendered = planner.render(chat, session=session, dialect="observations")
        if rendered is None:
            return history
        prompt: list[Json] = []
        for number, message in enumerate(history):
            remaining = rendered.remaining(number)
            if remaining is None:
                # Many models want roles to alternate, so a line replaces an omitted result.
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
    """Return the message with a role that distinguishes results from the user's words."""
    message = messages[number]
    if number < instructions:
        return {**message, "role": "system"}
    follows_assistant = number > instructions and messages[number - 1].get("role") == "assistant"
    if follows_assistant and message.get("role") == "user":
        return {**message, "role": "tool-response"}
    return message
