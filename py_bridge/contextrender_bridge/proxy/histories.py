"""The rendering of histories by the service, and the proxy's state of each history and call.

Long because a call is described, rendered, recorded and failed open with one shared state.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.errors import OtherConversation, Unreachable
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.client.fitting import (
    BYTES_PER_TOKEN,
    REFERENCES,
    Failures,
    RenderedRequest,
    apply_plan,
    dialect_of,
    has_references,
    is_kept_by_provider,
    reason_of,
    tool_name,
)
from contextrender_bridge.dialects import Transcript
from contextrender_bridge.dialects.contents import media_count
from contextrender_bridge.proxy.bodies import Body
from contextrender_bridge.proxy.own_calls import is_side_call
from contextrender_bridge.proxy.request import (
    Controls,
    Request,
    generated_name,
    has_session_header,
    history_key_of,
)

LATER_SECONDS = 30.0
SETTLE_SECONDS = 5.0
MAX_FAILURES = 3
PAUSE_SECONDS = 5.0
MEDIA_TOKENS = 800
REMEMBERED = 1024
"""The number of histories whose states are remembered: those that were used last."""


@dataclass(frozen=True)
class Size:
    """The size of a history at its last rendering. All fields are 0 before the first one.

    The history had `message_count` messages, in which the service counted `tokens` tokens. `budget`
    is the budget that it used, in tokens.
    """

    message_count: int = 0
    tokens: int = 0
    budget: int = 0

    def fits(self, messages: Sequence[Json], budget: int | str | None) -> bool:
        """Return whether the history `messages` is certain to fit the budget, without the service.

        The service has counted the first `message_count` messages, which must be unchanged. Of
        those after them, each byte counts as one token, because no token is shorter, and media are
        estimated.
        """
        # Without a number as budget, use the last budget, for example the automatic one.
        limit = budget if isinstance(budget, int) else self.budget
        if not limit or self.tokens > limit:
            return False
        new = messages[self.message_count :]
        new_tokens = len(wire.dumps(new)) + MEDIA_TOKENS * sum(map(media_count, new))
        return self.tokens + new_tokens <= limit


@dataclass
class Conversation:
    """The state of one history.

    - `system`: the system prompt of the first call. It is recorded with every call, because a
      prompt that changes with each call would start a branch each time.
    - `accepts_only_full`: the provider refused the rendered history and accepted the full one.
    - `max_tokens`, `max_bytes`: limits of prompt and request after the provider refused one as too
      long; None without such a refusal.
    - `was_refused_after_retry`: the provider refused the last call, and a retry of it.
    - `calls`, `failed_open`: the number of model calls, and of those that failed open.
    - `usage_report`: the newest call's usage, until it is sent to the service; None after that.
    - `recording`: the last call that was sent without waiting for the service. None without one,
      and once it is recorded.
    """

    system: list[Json] = field(default_factory=list)
    branch: int | None = None
    size: Size = field(default_factory=Size)
    accepts_only_full: bool = False
    was_refused_after_retry: bool = False
    max_tokens: int | None = None
    max_bytes: int | None = None
    has_warned: bool = False
    calls: int = 0
    failed_open: int = 0
    usage_report: Mapping[str, Any] | None = None
    recording: asyncio.Task[RenderedRequest] | None = field(default=None, repr=False)

    def limited_budget(self, budget: int | str | None) -> int | str | None:
        """Return `budget`, limited to `max_tokens` if that is set.

        In that case, an automatic or missing budget becomes `max_tokens`.
        """
        if self.max_tokens is None:
            return budget
        return min(budget, self.max_tokens) if isinstance(budget, int) else self.max_tokens

    def keep_first_system(self, transcript: Transcript) -> None:
        """Replace a transcript's leading system messages by those of the history's first call.

        If their number has changed, keep the transcript's own, and use them for later calls.
        """
        system = _leading_system(transcript)
        if len(system) != len(self.system):
            self.system = system
        transcript.messages[: len(system)] = self.system

    def usage_of_earlier_call(self, messages: int) -> Mapping[str, Any] | None:
        """Return the `usage_report` if it is of an earlier call, otherwise None.

        `messages` is the number of messages of the call that will send the report. An earlier call
        had fewer. The report may be of the sending call itself, if its answer came before the
        service recorded it. The service would ignore that report, as it lacks the call.
        """
        usage_report = self.usage_report
        return usage_report if usage_report and usage_report["messages"] < messages else None

    def start_recording(self, call: asyncio.Task[RenderedRequest]) -> None:
        """Keep the task `call` in `recording` until it ends.

        Drop it then, because its result has the whole request and would occupy memory.
        """
        self.recording = call
        call.add_done_callback(self._end_recording)

    def _end_recording(self, call: asyncio.Task[RenderedRequest]) -> None:
        if self.recording is call:
            self.recording = None


@dataclass
class ProxiedCall:
    """One model call: its session, its rendered request `fit`, and its number of `messages`.

    A call that is certain to fit, or that is only observed, does not wait for the service. Then
    `fit` is the original request, and the task `later_render` renders and records the call.
    Otherwise `later_render` is None. `messages` is 0 if the call is not recorded. `is_named` is
    false if the session's name was made from its messages. `history_key` distinguishes the
    histories of one session, and `client` names the calling program. With `answer_before_commit`,
    the service answers before the call is on disk.
    """

    session: str
    fit: RenderedRequest
    conversation: Conversation
    controls: Controls
    later_render: asyncio.Task[RenderedRequest] | None = field(default=None, repr=False)
    messages: int = 0
    is_named: bool = True
    history_key: str = ""
    client: str = ""
    answer_before_commit: bool = True

    @cached_property
    def declared_tokens(self) -> dict[str, int]:
        """The estimated tokens of each tool's declaration in the request, by tool name."""
        tools = self.fit.body.get("tools")
        declarations = tools if isinstance(tools, list) else []
        return {tool_name(tool): len(wire.dumps(tool)) // BYTES_PER_TOKEN for tool in declarations}

    @property
    def model(self) -> str | None:
        """The model that the request names, or None."""
        model = self.fit.body.get("model")
        return model if isinstance(model, str) else None

    async def rendered(self, seconds: float = 0.0) -> RenderedRequest:
        """Return the rendered request.

        If the task `later_render` renders it, wait at most `seconds` for it. Return the original
        request if the task has not ended by then.
        """
        if self.later_render is None:
            return self.fit
        if seconds:
            await asyncio.wait({self.later_render}, timeout=seconds)
        return self.later_render.result() if self.later_render.done() else self.fit


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
        self.deadline = settings.render_timeout
        self._pause = Pause()
        self._recording: set[asyncio.Task[RenderedRequest]] = set()
        self._conversations: OrderedDict[Hashable, Conversation] = OrderedDict()

    async def fit(
        self,
        request: Request,
        body: Body,
        dialect: str,
        controls: Controls,
        *,
        answer_before_commit: bool = True,
    ) -> ProxiedCall:
        """Read a model call's history, find its session, render it, and return the call.

        `body` is the request's body, in the format `dialect`. The call's request is the original
        one if that fails, or if the call is not recorded. Without `answer_before_commit`, the call
        is on disk when a rendered request is returned.
        """
        call = ProxiedCall(
            *("", RenderedRequest(body.fields), Conversation(), controls),
            answer_before_commit=answer_before_commit,
        )
        try:
            transcript = body.read(dialect_of(dialect, body.fields))
            _describe(call, request, transcript)
            self._add_conversation(call)
            if not _is_recorded(call, request, transcript):
                return call
            if not call.controls.has_user:
                self._fail(call, "token_missing")
                return call
            call.messages = len(transcript.messages)
            render = self._render if call.is_named else self._render_unnamed
            await render(call, transcript)
        except Exception as failure:
            self._pause.note(failed=isinstance(failure, Unreachable))
            self._fail(call, reason_of(failure))
        return call

    async def settle(self) -> None:
        """Wait some seconds until pending calls are recorded."""
        if self._recording:
            await asyncio.wait(set(self._recording), timeout=SETTLE_SECONDS)

    def _add_conversation(self, call: ProxiedCall) -> None:
        """Add the state that earlier calls of this history have left, or a new one, to the call.

        Forget the least recently used states if there are too many.
        """
        key = call.controls.token, call.session, call.history_key
        call.conversation = self._conversations.setdefault(key, Conversation())
        self._conversations.move_to_end(key)
        while len(self._conversations) > REMEMBERED:
            self._conversations.popitem(last=False)

    async def _render_unnamed(self, call: ProxiedCall, transcript: Transcript) -> None:
        """Find the session that an unnamed history continues, and render the call.

        Another call may continue that session with another conversation after the search. Then
        search and render once more. During a pause, do not search: `_render` then fails open.
        """
        find = partial(self.client.find_session, model=call.model, token=call.controls.token)
        search_count = 0 if self._pause.is_on else 2
        for _ in range(search_count):
            search = find(call.session, transcript.messages, history_key=call.history_key)
            call.session = await asyncio.wait_for(search, self.deadline)
            self._add_conversation(call)
            await self._render(call, transcript)
            if call.fit.failure != OtherConversation.code:
                return
        await self._render(call, transcript)

    async def _render(self, call: ProxiedCall, transcript: Transcript) -> None:
        """Render the call, after the history's earlier call is recorded.

        If the history is certain to fit the budget, or is only observed, the original request can
        be sent at once. So do not wait then, but give the call the task `later_render`, which
        records it.
        """
        # A system prompt that changes with each call would start a branch each time.
        call.conversation.keep_first_system(transcript)
        if self._pause.is_on:
            self._fail(call, "paused")
            return
        conversation, body = call.conversation, call.fit.body
        budget = conversation.limited_budget(call.controls.budget)
        is_certain_to_fit = self._is_certain_to_fit(call, transcript, budget)
        earlier_call = conversation.recording
        work = self._call_service(call, transcript, budget, earlier_call)
        if call.controls.mode != "observe" and not is_certain_to_fit:
            # The request depends on the service's plan: wait for it.
            call.fit = await self._request_of(work, body, self.deadline)
            return
        # Record the call in the background. The next call of the history waits for that.
        call.fit = RenderedRequest(body, transcript=transcript)
        call.later_render = asyncio.ensure_future(self._request_of(work, body, LATER_SECONDS))
        self._recording.add(call.later_render)
        call.later_render.add_done_callback(self._recording.discard)
        conversation.start_recording(call.later_render)

    def _is_certain_to_fit(
        self, call: ProxiedCall, transcript: Transcript, budget: int | str | None
    ) -> bool:
        """Return whether the full history is certain to fit the budget, without the service."""
        size = call.conversation.size
        # The size does not count items that cannot be read.
        if not size.fits(transcript.messages, budget) or transcript.unread_items():
            return False
        recorded_count = self.client.core.recorded_count(
            call.session,
            transcript.messages,
            token=call.controls.token,
            history_key=call.history_key,
        )
        # If fewer messages are recorded than were counted, the history may have changed.
        return size.message_count <= recorded_count

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

    def _fail(self, call: ProxiedCall, reason: str) -> None:
        """Count a failure, and let the call fail open.

        Its request is then sent unchanged, and is not recorded.
        """
        self.failures.add(reason)
        call.fit = RenderedRequest(call.fit.body, failure=reason)

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
            answer_before_commit=call.answer_before_commit,
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


def _describe(call: ProxiedCall, request: Request, transcript: Transcript) -> None:
    """Add its session, its transcript, and its settings for this session to the call.

    A request with references to items that the provider stores cannot be shortened. So change its
    mode `render` to `observe`: the full history is sent and recorded.
    """
    body = call.fit.body
    call.fit = RenderedRequest(body, transcript=transcript)
    call.session = request.session or generated_name(request.values, transcript.messages)
    call.is_named = bool(request.session)
    call.history_key = history_key_of(transcript.messages)
    call.client = request.client
    call.controls = call.controls.for_request(call.session, body)
    if call.controls.mode == "render" and has_references(body):
        call.controls = replace(
            call.controls, mode="observe", delivery="full", full_reason=REFERENCES
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


def _leading_system(transcript: Transcript) -> list[Json]:
    """Return the system messages before the first other message."""
    system = []
    for message in transcript.messages:
        if message["role"] not in ("system", "developer"):
            break
        system.append(message)
    return system
