"""What every adapter asks before a model call: which messages to show, and what of them."""

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


class Planner:
    """Asks the service for one agent's sessions; safe between threads and event loops."""

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
        """`client` is the local service's unless given.

        `session` names the session whatever the runtime calls it; the others are those of
        `ContextRender.fit`.
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
        """The history to send; the original when anything goes wrong (`ContextRender.fit`).

        `session` is what the runtime calls it; without any, how the history begins names it.
        """
        return self.client.fit(
            self._session or session or None, messages, dialect=dialect, **self._settings
        )

    def shown(
        self, messages: Sequence[Json], *, session: str | None = None, dialect: str = "chat"
    ) -> RenderedHistory | None:
        """What to show of messages of either chat dialect; None: all of it."""
        fit = self.fit(messages, session=session, dialect=dialect)
        if not fit.changed or fit.plan is None:
            return None
        transcript = cast("ChatTranscript | ObservationTranscript", fit.transcript)
        return RenderedHistory(fit.plan, transcript.places)

    def guarded(self, fitted: Callable[[T], T], whole: T) -> T:
        """What `fitted` makes of a runtime's history; all of it when that fails.

        `fit` itself does not fail: this is for what an adapter reads and writes around it.
        """
        try:
            return fitted(whole)
        except Exception as failure:
            self.client.failures.add(reason_of(failure))
            return whole

    async def guarded_async(self, fitted: Callable[[T], T], whole: T) -> T:
        """`guarded`, for runtimes that wait on an event loop."""
        return await asyncio.to_thread(self.guarded, fitted, whole)


@dataclass(frozen=True)
class RemainingMessage:
    """What stays of a message: its calls, by number, and the text in place of its own.

    `text` is None where its own text stays; `whole` says that nothing of it is left out.
    """

    calls: list[int]
    text: str | None
    whole: bool


@dataclass(frozen=True)
class RenderedHistory:
    """What is shown of the chat messages that a runtime's own were read as."""

    plan: MessagePlan
    places: Sequence[int | None]

    def of(self, message: int, calls: int = 0) -> RemainingMessage | None:
        """What stays of message number `message`, which has that many calls; None: nothing."""
        place = self.places[message]
        if place is None:
            return RemainingMessage(list(range(calls)), None, whole=True)
        staying = [call for call in range(calls) if self.plan.shows_call(place, call)]
        text = self.plan.text(place)
        if not self.plan.shows(place):
            return RemainingMessage(staying, "", whole=False) if staying else None
        return RemainingMessage(staying, text, whole=text is None and len(staying) == calls)


def fitted_texts(
    planner: Planner, messages: Sequence[Json], *, instructions: int = 0, session: str | None = None
) -> Sequence[Json]:
    """The messages to show, for runtimes whose results come as the user's text.

    The same object where that is all of them. The first `instructions` messages are no history.
    After them, what follows an assistant's message is its result, whatever it begins with.
    """

    def fitted(whole: Sequence[Json]) -> Sequence[Json]:
        seen = [_as_seen(whole, number, instructions) for number in range(len(whole))]
        shown = planner.shown(seen, session=session, dialect="observations")
        if shown is None:
            return whole
        left: list[Json] = []
        for number, message in enumerate(whole):
            staying = shown.of(number)
            if staying is None:
                # Many models want roles to alternate: a line answers what the agent said.
                if left and left[-1].get("role") == "assistant" != message.get("role"):
                    left.append({**message, "content": OMITTED})
            elif staying.text is None:
                left.append(message)
            elif staying.text:
                left.append({**message, "content": with_text(message.get("content"), staying.text)})
        return left

    return planner.guarded(fitted, messages)


def _as_seen(messages: Sequence[Json], number: int, instructions: int) -> Json:
    """The message with the role that tells a result from the user's words."""
    message = messages[number]
    if number < instructions:
        return {**message, "role": "system"}
    answers = number > instructions and messages[number - 1].get("role") == "assistant"
    if answers and message.get("role") == "user":
        return {**message, "role": "tool-response"}
    return message
