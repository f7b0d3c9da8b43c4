"""The rendering of histories by the service, which selects the contents of each prompt.

Long because a call is described, rendered, recorded and failed open with one shared state.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from contextrender_bridge.base.errors import OtherConversation, Unreachable
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.client.fitting import (
    REFERENCES,
    Failures,
    RenderedRequest,
    apply_plan,
    dialect_of,
    has_references,
    is_kept_by_provider,
    reason_of,
)
from contextrender_bridge.dialects import Transcript
from contextrender_bridge.proxy.bodies import Body
from contextrender_bridge.proxy.conversations import Conversation, Conversations, ProxiedCall, Size
from contextrender_bridge.proxy.own_calls import is_side_call
from contextrender_bridge.proxy.request import (
    Controls,
    Request,
    generated_name,
    has_session_header,
    history_key_of,
)
from contextrender_bridge.proxy.usage_reporting import UsageNotes

LATER_SECONDS = 30.0
SETTLE_SECONDS = 5.0
MAX_FAILURES = 3
PAUSE_SECONDS = 5.0


class Histories:
    """Renderer of the histories of all sessions; several calls may run at the same time."""

    def __init__(
        self, client: AsyncContextRender, settings: Settings, *, recalls: bool = False
    ) -> None:
        """Call the service through `client`.

        `recalls` is true if the models have the recall tool although requests do not declare it.
        """
        self._recalls = recalls
        self.client = client
        self.failures = Failures()
        self.notes = UsageNotes(client)
        self.deadline = settings.render_timeout
        self._pause = Pause()
        self._recording: set[asyncio.Task[RenderedRequest]] = set()
        self._conversations = Conversations()

    async def fit(
        self, request: Request, body: Body, dialect: str, controls: Controls
    ) -> ProxiedCall:
        """Read a model call's history, find its session, render it, and return the call.

        `body` is the request's body, in the format `dialect`. The call's request is the original
        one if that fails, or if the call is not recorded.
        """
        call = ProxiedCall("", RenderedRequest(body.fields), Conversation(), controls)
        try:
            transcript = body.read(dialect_of(dialect, body.fields))
            call = _describe(call, request, transcript)
            # Add the conversation, the state that earlier calls of this history have left.
            call = self._conversations.add_state(call)
            if not _is_recorded(call, request, transcript):
                return call
            if not call.controls.has_user:
                return self._failed(call, "token_missing")
            call = replace(call, messages=len(transcript.messages))
            render = self._render if call.is_named else self._render_unnamed
            return await render(call, transcript)
        except Exception as failure:
            self._pause.note(failed=isinstance(failure, Unreachable))
            return self._failed(call, reason_of(failure))

    async def settle(self) -> None:
        """Wait some seconds until pending calls are recorded and usage is reported."""
        await self.notes.settle(SETTLE_SECONDS)
        if self._recording:
            await asyncio.wait(set(self._recording), timeout=SETTLE_SECONDS)

    async def _render_unnamed(self, call: ProxiedCall, transcript: Transcript) -> ProxiedCall:
        """Find the session that an unnamed history continues, render the call, and return it.

        Another call may continue that session with another conversation after the search. Then
        search and render once more. During a pause, do not search: `_render` then fails open.
        """
        find = partial(self.client.find_session, model=call.model, token=call.controls.token)
        search_count = 0 if self._pause.is_on else 2
        for _ in range(search_count):
            search = find(call.session, transcript.messages, history_key=call.history_key)
            name = await asyncio.wait_for(search, self.deadline)
            call = self._conversations.add_state(replace(call, session=name))
            rendered = await self._render(call, transcript)
            if rendered.fit.failure != OtherConversation.code:
                return rendered
        return await self._render(call, transcript)

    async def _render(self, call: ProxiedCall, transcript: Transcript) -> ProxiedCall:
        """Render the call, after the history's earlier call is recorded, and return it.

        If the history is certain to fit the budget, or is only observed, the original request can
        be sent at once. So do not wait then, but return the call with the task `later_render`,
        which records it.
        """
        # A system prompt that changes with each call would start a branch each time.
        call.conversation.keep_first_system(transcript)
        if self._pause.is_on:
            return self._failed(call, "paused")
        # Find out whether the full history is certain to fit the budget.
        conversation, body = call.conversation, call.fit.body
        budget = conversation.limited_budget(call.controls.budget)
        recorded_count = partial(
            self.client.core.recorded_count,
            call.session,
            transcript.messages,
            token=call.controls.token,
            history_key=call.history_key,
        )
        is_small = conversation.size.fits(transcript.messages, recorded_count, budget)
        # The size does not count items that cannot be read.
        is_certain_to_fit = is_small and not transcript.unread_items()
        earlier_call = conversation.recording
        work = self._call_service(call, transcript, budget, earlier_call)
        if call.controls.mode != "observe" and not is_certain_to_fit:
            # The request depends on the service's plan: wait for it.
            return replace(call, fit=await self._request_of(work, body, self.deadline))
        # Record the call in the background. The next call of the history waits for that.
        later_render = asyncio.ensure_future(self._request_of(work, body, LATER_SECONDS))
        self._recording.add(later_render)
        later_render.add_done_callback(self._recording.discard)
        conversation.start_recording(later_render)
        return replace(call, later_render=later_render)

    async def _request_of(
        self, work: Coroutine[Any, Any, RenderedRequest], body: Mapping[str, Any], seconds: float
    ) -> RenderedRequest:
        """Return the request that `work` renders, or one with `body` if it fails or is late.

        Count a failure, and note for the pause whether the service could be reached. `seconds` is
        the time limit.
        """
        try:
            fit = await asyncio.wait_for(work, seconds)
        except Exception as failure:
            self._pause.note(failed=isinstance(failure, Unreachable))
            self.failures.add(reason_of(failure))
            return RenderedRequest(body, failure=reason_of(failure))
        self._pause.note(failed=False)
        return fit

    def _failed(self, call: ProxiedCall, reason: str) -> ProxiedCall:
        """Count a failure, and return the call so that it fails open.

        Its request is then sent unchanged, and is not recorded.
        """
        self.failures.add(reason)
        return replace(call, fit=RenderedRequest(call.fit.body, failure=reason))

    async def _call_service(
        self,
        call: ProxiedCall,
        transcript: Transcript,
        budget: int | str | None,
        earlier_call: asyncio.Task[RenderedRequest] | None,
    ) -> RenderedRequest:
        """Call the service's `render`, apply its plan, and return the rendered request.

        First wait for the task that records the history's `earlier_call`, if there is one. If this
        call were recorded first, the service would have to load the earlier history again.

        Also report the previous call's usage in it, and store the reply's branch, size and budget
        in the conversation. If the plan cannot be applied fully, the returned request has a
        `failure`, but only in mode `render`: in the other modes the full request is sent anyway.
        """
        if earlier_call is not None and not earlier_call.done():
            await asyncio.wait({earlier_call})
        # Call the service, with the usage of the history's previous call if it is not reported yet.
        controls, conversation, body = call.controls, call.conversation, call.fit.body
        usage_report = conversation.usage_of_earlier_call(call.messages)
        reply = await self.client.render(
            call.session,
            transcript.messages,
            budget=budget,
            policy=controls.policy,
            parameters={"cache_ttl_minutes": transcript.cache_ttl_minutes},
            pinned_tools=sorted(controls.pinned_tools) or None,
            pinned_calls=sorted(controls.pinned_calls) or None,
            model=call.model,
            output="plan",
            answer_before_commit=True,
            agent_defaults=True,
            token=controls.token,
            history_key=call.history_key,
            delivery=controls.delivery,
            client=call.client,
            usage=usage_report,
            one_conversation=not call.is_named,
        )
        # The service has the report now, unless a newer call has replaced it meanwhile.
        if usage_report is not None and conversation.usage_report is usage_report:
            conversation.usage_report = None
        # Remember what the next call needs, and apply the plan.
        conversation.branch = reply["branch"]
        tokens = reply["tokens_before"] + reply["tokens_unbudgeted"]
        conversation.size = Size(len(transcript.messages), tokens, reply["budget"])
        rendered = apply_plan(
            body, transcript, reply, bypass=controls.bypass_tools, recalls=self._recalls
        )
        if controls.mode != "render":
            return replace(rendered, failure="")
        # Log such a failure only once for each conversation.
        if rendered.failure and not conversation.has_warned:
            conversation.has_warned = True
            self.failures.add(rendered.failure)
        return rendered


def _describe(call: ProxiedCall, request: Request, transcript: Transcript) -> ProxiedCall:
    """Return the call with its session, its transcript, and its settings for this session.

    A request with references to items that the provider stores cannot be shortened. So change its
    mode `render` to `observe`: the full history is sent and recorded.
    """
    body = call.fit.body
    session = request.session or generated_name(request.values, transcript.messages)
    controls = call.controls.for_request(session, body)
    if controls.mode == "render" and has_references(body):
        controls = replace(controls, mode="observe", delivery="full", full_reason=REFERENCES)
    fit = RenderedRequest(body, transcript=transcript)
    return replace(
        call,
        session=session,
        controls=controls,
        fit=fit,
        is_named=bool(request.session),
        history_key=history_key_of(transcript.messages),
        client=request.client,
    )


def _is_recorded(call: ProxiedCall, request: Request, transcript: Transcript) -> bool:
    """Return whether a call is recorded.

    It is not if the history is empty or the provider stores it, or if it only asks for a title.
    """
    body = call.fit.body
    if not transcript.messages or is_kept_by_provider(body):
        return False
    # A call for a title is left out only from a session that a header names. Without such a header,
    # it is recorded, as a session of its own.
    return not (has_session_header(request.values) and is_side_call(body))


class Pause:
    """A pause of `PAUSE_SECONDS` without calls to the service, after `MAX_FAILURES` in a row.

    Only an unreachable service counts as a failure. One that answers late is busy.
    """

    def __init__(self) -> None:
        """Start without a failure."""
        self._failure_count = 0
        self._ends_at = 0.0
        """The end of the last pause, on the clock of `time.monotonic`."""

    @property
    def is_on(self) -> bool:
        """True while the service must not be called."""
        return time.monotonic() < self._ends_at

    def note(self, *, failed: bool) -> None:
        """Count a failure of the service, or reset the count after an answer.

        Begin a pause at the last of `MAX_FAILURES` failures in a row, and at each one after that.
        """
        self._failure_count = self._failure_count + 1 if failed else 0
        if self._failure_count >= MAX_FAILURES:
            self._ends_at = time.monotonic() + PAUSE_SECONDS
