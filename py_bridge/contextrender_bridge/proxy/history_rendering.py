"""The histories that pass through: each model call's request, made to fit by the service."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from contextrender_bridge.asgi import Headers
from contextrender_bridge.base.errors import Unreachable
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.client.fitting import (
    Failures,
    RenderedRequest,
    apply_plan,
    dialect_of,
    reason_of,
)
from contextrender_bridge.dialects import Transcript
from contextrender_bridge.proxy.bodies import Body
from contextrender_bridge.proxy.controls import (
    Controls,
    given_name,
    is_agents,
    line_of,
    session_of,
)
from contextrender_bridge.proxy.conversations import Conversation, ProxiedCall, Size
from contextrender_bridge.proxy.own_calls import is_side_call
from contextrender_bridge.proxy.provider_history import has_references, is_kept_by_provider
from contextrender_bridge.proxy.usage_reporting import REFERENCES, UsageNotes, client_of

REMEMBERED = 1024
LATER_SECONDS = 30.0
PATIENCE = 3
PAUSE_SECONDS = 5.0
SETTLE_SECONDS = 5.0


class Pause:
    """After several failures in a row the service is left alone for a while, and not waited for."""

    def __init__(self) -> None:
        """No failure yet."""
        self._failed = 0
        self._until = 0.0

    @property
    def on(self) -> bool:
        """Whether not to ask now."""
        return time.monotonic() < self._until

    def note(self, *, failed: bool) -> None:
        """The service has answered, or failed to."""
        self._failed = self._failed + 1 if failed else 0
        if self._failed >= PATIENCE:
            self._until = time.monotonic() + PAUSE_SECONDS


class Histories:
    """Asks the service what to show; safe for any number of calls at a time."""

    def __init__(
        self, client: AsyncContextRender, settings: Settings, *, recalls: bool = False
    ) -> None:
        """No call has been made. `recalls`: models have the recall tool, seen here or not."""
        self._recalls = recalls
        self.client = client
        self.failures = Failures()
        self.notes = UsageNotes(client)
        self.deadline = settings.render_timeout
        self._pause = Pause()
        self._recording: set[asyncio.Task[RenderedRequest]] = set()
        self._conversations: OrderedDict[Hashable, Conversation] = OrderedDict()

    async def fit(
        self, path: str, headers: Headers, read: Body, dialect: str, asked: Controls
    ) -> ProxiedCall:
        """The call as it should go to the provider. Never raises for what the service does."""
        body = read.fields
        call = ProxiedCall("", RenderedRequest(body), Conversation(), asked)
        try:
            transcript = read.read(dialect_of(dialect, body))
            call = replace(call, session=session_of(path, headers, transcript.messages))
            asked = asked.for_request(call.session, dialect, body)
            if asked.mode == "render" and has_references(body):
                asked = replace(asked, mode="observe", delivery="full", whole_for=REFERENCES)
            call = replace(call, asked=asked, fit=RenderedRequest(body, transcript=transcript))
            if not transcript.messages or is_kept_by_provider(body):
                return call
            if is_agents(headers) and is_side_call(body):
                return call
            if not asked.identified:
                return self._failed(call, "token_missing")
            line = line_of(transcript.messages)
            if not given_name(path, headers) and not self._pause.on:
                model = body.get("model")
                found = self.client.find_session(
                    call.session,
                    transcript.messages,
                    model=model if isinstance(model, str) else None,
                    token=asked.token,
                    line=line,
                )
                name = await asyncio.wait_for(found, self.deadline)
                call = replace(call, session=name)
            conversation = self._conversation((asked.token, call.session, line), transcript)
            call = replace(call, conversation=conversation)
            if self._pause.on:
                return self._failed(call, "paused")
            call = replace(call, messages=len(transcript.messages))
            budget, size = conversation.within(asked.budget), conversation.size
            fit = partial(self._fit, call, transcript, line, budget, headers)
            work = _after(conversation.recording, fit)
            recorded = partial(
                self.client.recorded_count,
                call.session,
                transcript.messages,
                token=asked.token,
                line=line,
            )
            is_small = size.fits(transcript.messages, recorded, budget)
            if asked.mode == "observe" or (is_small and not transcript.unread_items()):
                later = asyncio.ensure_future(self._outcome(work, body, LATER_SECONDS))
                self._recording.add(later)
                later.add_done_callback(self._recording.discard)
                conversation.recording = later
                return replace(call, later=later)
            return replace(call, fit=await self._outcome(work, body, self.deadline))
        except Exception as failure:
            self._pause.note(failed=_is_outage(failure))
            return self._failed(call, reason_of(failure))

    async def settle(self) -> None:
        """Waits a while for what is being recorded, and told of calls that have ended."""
        await self.notes.settle(SETTLE_SECONDS)
        if self._recording:
            await asyncio.wait(set(self._recording), timeout=SETTLE_SECONDS)

    async def _outcome(
        self, work: Coroutine[Any, Any, RenderedRequest], body: Mapping[str, Any], seconds: float
    ) -> RenderedRequest:
        """What the service makes of a request within that time; the original if it does not."""
        try:
            fit = await asyncio.wait_for(work, seconds)
        except Exception as failure:
            self._pause.note(failed=_is_outage(failure))
            self.failures.add(reason_of(failure))
            return RenderedRequest(body, failure=reason_of(failure))
        self._pause.note(failed=False)
        return fit

    def _failed(self, call: ProxiedCall, reason: str) -> ProxiedCall:
        """A call that goes as it came, and of which the service knows nothing."""
        self.failures.add(reason)
        return replace(call, fit=RenderedRequest(call.fit.body, failure=reason))

    async def _fit(
        self,
        call: ProxiedCall,
        transcript: Transcript,
        line: str,
        budget: int | str | None,
        headers: Headers,
    ) -> RenderedRequest:
        asked, conversation, body = call.asked, call.conversation, call.fit.body
        model = body.get("model")

        usage_report = conversation.usage_report
        reply = await self.client.render(
            call.session,
            transcript.messages,
            budget=budget,
            policy=asked.policy,
            parameters={"cache_ttl_minutes": transcript.cache_ttl_minutes},
            pinned_tools=sorted(asked.pinned_tools) or None,
            pinned_calls=sorted(asked.pinned_calls) or None,
            model=model if isinstance(model, str) else None,
            output="plan",
            answer_before_commit=True,
            agent_defaults=True,
            token=asked.token,
            line=line,
            delivery=asked.delivery,
            client=client_of(headers),
            usage=usage_report,
        )
        if conversation.usage_report is usage_report:
            conversation.usage_report = None
        conversation.branch = reply["branch"]
        tokens = reply["tokens_before"] + reply["tokens_unbudgeted"]
        conversation.size = Size(len(transcript.messages), tokens, reply["budget"])
        left = apply_plan(body, transcript, reply, bypass=asked.bypass_tools, recalls=self._recalls)
        if asked.mode != "render":
            return replace(left, failure="")
        if left.failure and not conversation.warned:
            conversation.warned = True
            self.failures.add(left.failure)
        return left

    def _conversation(self, key: Hashable, transcript: Transcript) -> Conversation:
        """The history's conversation, and its first system prompt in place of what came now."""
        conversation = self._conversations.setdefault(key, Conversation())
        self._conversations.move_to_end(key)
        while len(self._conversations) > REMEMBERED:
            self._conversations.popitem(last=False)
        system = _leading_system(transcript)
        if len(system) != len(conversation.system):
            conversation.system = system
        transcript.messages[: len(system)] = conversation.system
        return conversation


async def _after(
    before: asyncio.Task[RenderedRequest] | None,
    work: Callable[[], Coroutine[Any, Any, RenderedRequest]],
) -> RenderedRequest:
    """Begins when what came before is recorded: of a call that was overtaken the service would make
    the whole history anew, as it was then."""
    if before is not None and not before.done():
        await asyncio.wait({before})
    return await work()


def _is_outage(failure: Exception) -> bool:
    """Whether others of the service's answers would fail, too. One that is late says nothing of
    the next: under load they come all the same.
    """
    return isinstance(failure, Unreachable)


def _leading_system(transcript: Transcript) -> list[Json]:
    system = []
    for message in transcript.messages:
        if message["role"] not in ("system", "developer"):
            break
        system.append(message)
    return system
