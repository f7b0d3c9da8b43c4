"""The proxying of model calls, and the release of memory after large ones.

For each call, render the history, send it, and send the answer to the agent. After a refusal, send
another body if there is one. Long because each body is made from the refusal of the one before it.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from functools import cached_property

from contextrender_bridge.asgi import Send
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.base.usage import ProviderReply
from contextrender_bridge.client.fitting import RenderedRequest
from contextrender_bridge.dialects import DIALECTS
from contextrender_bridge.process_memory import return_free_memory
from contextrender_bridge.proxy.bodies import LARGE_CHARACTERS, Body, RecentBodies
from contextrender_bridge.proxy.histories import Histories, ProxiedCall
from contextrender_bridge.proxy.provider import (
    Connections,
    ReplyStart,
    Unavailable,
    UsageCapture,
    pass_on,
    relay,
)
from contextrender_bridge.proxy.refusals import Refusal, late_refusal
from contextrender_bridge.proxy.request import Controls, InvalidControl, Request
from contextrender_bridge.proxy.shortening import WindowedRequest, Windows
from contextrender_bridge.proxy.usage_reporting import (
    UsageNotes,
    own_header,
    report,
)

RELEASE_SECONDS = 30.0
"""The seconds without a large request after which the proxy drops large histories from memory."""

REFUSED = 400
"""The status of a request that a provider refuses, such as one with a changed history."""
MAX_RETRIES = 2
"""The maximum number of retries of one model call."""
LAST_SHARE = 0.35
"""The size of the last retry after two refusals without numbers, as a share of the second try."""
MAX_NEXT_SHARE = 0.9
"""The largest size of the history's next request, as a share of a request refused as too long."""


class ModelCalls:
    """The proxy's handler of model calls; several calls may run at the same time."""

    def __init__(
        self,
        http: Connections,
        histories: Histories,
        notes: UsageNotes,
        settings: Settings,
    ) -> None:
        """Call providers through `http`, and the service through `histories` and `notes`."""
        self._http = http
        self._histories, self._notes = histories, notes
        self._settings = settings
        self._bodies = RecentBodies()
        drop_functions = self._bodies.drop_large, histories.client.core.drop_large_histories
        self.memory = MemoryRelease(*drop_functions)
        self._windows = Windows()

    async def answer(self, request: Request, raw: bytes, send: Send, *, is_trusted: bool) -> None:
        """Render a model call's history, forward the call, and note the usage in the reply.

        `raw` is the request's body. Forward it unchanged if the mode is `bypass`, if the body is
        compressed or not a JSON object, or if a control header is invalid. A trusted caller may
        use the proxy's own token. Raise Unavailable if the provider gives no answer.
        """
        url, onward = request.url, request.onward  # `onward`: the headers to forward
        body = self._read_body(request, raw)
        try:
            controls = Controls.of(request.values, self._settings, is_trusted=is_trusted)
        except InvalidControl as invalid:
            # Count the failure, and name it in a header of the reply.
            reason = f"invalid_{invalid.args[0]}"
            self._histories.failures.add(reason)
            added = [own_header("fail-open", reason)]
            await pass_on(self._http, "POST", url, onward, raw, send, added)
            return
        if body is None or controls.mode == "bypass":
            await pass_on(self._http, "POST", url, onward, raw, send, [])
            return
        # Render the history. `call.later_render` is set if the service still records the call.
        call = await self._histories.fit(request, body, request.dialect, controls)
        if call.later_render is not None and len(raw) > LARGE_CHARACTERS:
            # The recording keeps the large history in memory, and may end long after the reply.
            # Start the timer that releases this memory once the recording has ended.
            call.later_render.add_done_callback(lambda _: self.memory.start())
        # `capture` sends the reply to the agent, and keeps a copy to read the usage from.
        capture = UsageCapture(send)
        try:
            delivery = await self._send(call, request, raw, body, capture)
        except Unavailable as failure:
            # `notes` reports the call to the service. It has no usage, only the failure's code.
            reply = ProviderReply(status=failure.status, error=failure.code)
            self._notes.add(call, None, call.controls.delivery, reply)
            raise
        self._notes.add(call, capture.usage(), delivery, capture.reply())

    def _read_body(self, request: Request, raw: bytes) -> Body | None:
        """Return the request's parsed body, or None if it is compressed or not a JSON object."""
        if not request.plain:
            return None
        try:
            body = self._bodies.read(raw, DIALECTS[request.dialect].key)
        except ValueError:
            return None
        return body if isinstance(body.fields, dict) else None

    async def _send(
        self, call: ProxiedCall, request: Request, raw: bytes, body: Body, send: UsageCapture
    ) -> str:
        """Send a call to the provider, and the provider's reply to the agent.

        After a refusal, send the provider another body if there is one. The agent gets only the
        last reply. Return the call's delivery, which is recorded with its usage.
        """
        attempts = CallAttempts(call, raw, body, request.dialect, self._windows)
        content = attempts.first_content()
        while True:
            async with self._http.answer("POST", request.url, request.onward, content) as start:
                if attempts.may_change:
                    # Only a request that may be changed can be retried, so only then does it
                    # matter whether the reply is a refusal.
                    await start.read()
                retry = attempts.content_after(content, start)
                if retry is None:
                    # Accepted, or refused for good: the agent gets this reply.
                    await self._answer(call, attempts, start, send)
                    # A stream may also end with a refusal. `send` has kept a copy of the reply.
                    attempts.note_late_refusal(content, send)
                    return attempts.delivery
            content = retry

    async def _answer(
        self, call: ProxiedCall, attempts: CallAttempts, start: ReplyStart, send: Send
    ) -> None:
        """Send the provider's reply to the agent, with headers that describe the sent prompt."""
        described_request = call.fit
        if attempts.sends_full_after_refusal:
            # The provider refused the rendered history, and got the full one.
            self._histories.failures.add("refused")
            described_request = RenderedRequest(call.fit.body, failure="refused")
        elif call.later_render is not None:
            # In mode `observe`, wait for the headers that report what rendering would have done.
            patience = self._settings.render_timeout if call.controls.mode == "observe" else 0
            described_request = await call.rendered(patience)
        headers = report(call, described_request)
        if tokens := attempts.truncated_to:
            headers.append(own_header("truncated-to", tokens))
        await relay(start, send, headers)


class CallAttempts:
    """The requests for one model call.

    If the provider refuses a request as too long, the next one is smaller. If it refuses a rendered
    history for an unknown reason, the next request has the full history.
    """

    def __init__(
        self, call: ProxiedCall, raw: bytes, body: Body, dialect: str, windows: Windows
    ) -> None:
        """Prepare the requests of `call`.

        `raw` are the bytes of the agent's original request, and `body` is the same request, in the
        format `dialect`. `windows` has the context windows of models.
        """
        self.truncated_to = 0
        """The tokens to which the last body to send was cut; 0 if it was not cut."""
        self._call = call
        self._conversation = call.conversation
        self._raw, self._body, self._dialect, self._windows = raw, body, dialect, windows
        self.may_change = call.controls.mode == "render" or call.controls.is_compaction_call
        """True if the proxy may send a body that differs from the agent's."""
        self._is_rendered = call.controls.mode == "render" and call.fit.changed
        self._refusal_count = 0
        # A history that was refused in spite of retries is not retried until a call is accepted.
        may_retry = self.may_change and not self._conversation.was_refused_after_retry
        self._retries_left = MAX_RETRIES if may_retry else 0
        self.sends_full_after_refusal = False
        """True if the full history is sent because the provider refused the rendered one."""

    @cached_property
    def _request(self) -> WindowedRequest:
        """The request to cut. It is made at the first access, because most requests are not cut."""
        sends_rendered = self._is_rendered and not self.sends_full_after_refusal
        fields = self._call.fit.body if sends_rendered else self._body.fields
        size = self._conversation.size
        return WindowedRequest(self._windows, self._raw, self._body, fields, self._dialect, size)

    @property
    def delivery(self) -> str:
        """The delivery to record: `rendered`, `full` or `holdout`.

        It is `full` if the provider refused the rendered history, or rendering failed.
        """
        fit = self._call.fit
        is_unchanged_by_failure = bool(fit.failure) and not fit.changed
        if self.sends_full_after_refusal or is_unchanged_by_failure:
            return "full"
        return self._call.controls.delivery

    def first_content(self) -> bytes:
        """Return the first body to send: the rendered history, or the agent's request.

        If the provider refused this history's rendered form before and accepted the full one,
        return the full one. If it refused a body of this history as too long, cut this body to the
        limit `max_bytes` that is remembered since then. Remember whether it is cut.
        """
        conversation = self._conversation
        max_bytes = conversation.max_bytes
        if self._is_rendered and not conversation.accepts_only_full:
            content = self._body.splice(self._raw, self._call.fit.body)
            if max_bytes is None or max_bytes >= len(content):
                return content
            # If the request cannot be made this small, try it as it is.
            share = max_bytes / len(content)
            content = self._request.smaller(len(content), share) or content
        else:
            self.sends_full_after_refusal = self._is_rendered
            # If the proxy may not change the request, send it even above the limit.
            content = self._request.full(max_bytes if self.may_change else None)
        self.truncated_to = self._request.truncated_to
        return content

    def content_after(self, content: bytes, start: ReplyStart) -> bytes | None:
        """Return the body to retry with after the reply to `content`, or None for no retry.

        `start` is the beginning of the reply. If the provider refused `content` as too long, return
        a smaller body. If it refused a rendered history for another reason, return the full history
        instead, or vice versa. Return None if the provider answered, no other body is possible or
        no retry is left: the agent then gets this reply. Remember the outcome for the next call.
        """
        if not start.is_refused:
            self._record_acceptance(content)
            return None
        self._refusal_count += 1
        # `refusal` is set only for a prompt that is too long.
        if start.refusal is not None:
            retry = self._smaller_content(content, start.refusal)
        elif start.response.status == REFUSED and self._is_rendered:
            retry = self._other_form(content)
        else:
            retry = None
        has_retried = self._retries_left < MAX_RETRIES
        if retry is None or not self._retries_left:
            # If retries did not help, the history's next call is not retried.
            self._conversation.was_refused_after_retry = has_retried
            return None
        self._retries_left -= 1
        # A header of the reply reports to how many tokens the retry is cut, if it is.
        self.truncated_to = self._request.truncated_to
        return retry

    def note_late_refusal(self, content: bytes, reply: UsageCapture) -> None:
        """Remember the limit if the `reply` to `content` ends with a refusal as too long.

        The agent has the beginning of this reply already, so the call cannot be retried.
        """
        may_refuse = self.may_change and reply.is_accepted_stream
        refusal = late_refusal(reply.plain_body) if may_refuse else None
        if refusal is not None:
            self._refusal_count += 1
            self._remember_limits(content, refusal)

    def _record_acceptance(self, content: bytes) -> None:
        """Remember for the history's next call that the provider accepted `content`."""
        conversation = self._conversation
        conversation.was_refused_after_retry = False
        conversation.accepts_only_full = self.sends_full_after_refusal
        if self._refusal_count and conversation.max_bytes:
            # A retry had to be as small as this, so the next call may not be larger.
            conversation.max_bytes = min(conversation.max_bytes, len(content))

    def _other_form(self, content: bytes) -> bytes | None:
        """Return the full history if the rendered one was refused, and vice versa.

        `content` is the refused body. Return None if this call has already sent both, or if the
        full history was refused and the rendered one is not smaller.
        """
        conversation = self._conversation
        # An earlier call may have set `accepts_only_full`. Then this call began with the full one.
        began_with_full = conversation.accepts_only_full
        was_rendered_refused = not self.sends_full_after_refusal and not began_with_full
        if was_rendered_refused:
            self.sends_full_after_refusal = True
            return self._request.full(conversation.max_bytes)
        # The full history was refused. Send the rendered one, unless this call has tried it.
        rendered = self._request.rendered(self._call.fit.body)
        if began_with_full and len(rendered) < len(content):
            self.sends_full_after_refusal = conversation.accepts_only_full = False
            return rendered
        return None

    def _smaller_content(self, content: bytes, refusal: Refusal) -> bytes | None:
        """Return a body that is smaller than the refused `content`, or None if none is possible.

        Also remember the refusal's limits for later calls.
        """
        self._remember_limits(content, refusal)
        share = refusal.share
        if self._refusal_count > 1 and not refusal.prompt_tokens:
            # Without token counts, `refusal.share` is always the same. The first retry had this
            # share and was refused, so use a smaller one.
            share = LAST_SHARE
        return self._request.smaller(len(content), share)

    def _remember_limits(self, content: bytes, refusal: Refusal) -> None:
        """Remember the limits that a refusal of `content` shows, for the model and the history."""
        self._request.learn(refusal)
        conversation, reply = self._conversation, self._call.fit.reply
        history_tokens = reply["tokens_after"] if reply else conversation.size.tokens
        if history_tokens and not self.sends_full_after_refusal:
            # The service renders the history's next prompt within this limit.
            conversation.max_tokens = refusal.next_budget(history_tokens)
        if self._refusal_count > 1 or not refusal.prompt_tokens:
            # There are no token counts, or they gave no request that fits. So limit the bytes of
            # the history's next request, too.
            conversation.max_bytes = int(len(content) * min(refusal.share, MAX_NEXT_SHARE))


class MemoryRelease:
    """A timer that drops large histories and gives their memory back to the system.

    Large histories are kept until the timer ends, because a next request of such a history is read
    faster then. Small histories are not dropped.
    """

    def __init__(self, *drop_functions: Callable[[], None]) -> None:
        """Call these functions to drop large histories."""
        self._drop_functions = drop_functions
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start or restart the timer, which releases the memory after `RELEASE_SECONDS`.

        It is called at the end of each large request.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(RELEASE_SECONDS, self._release)

    def _release(self) -> None:
        """Drop the large histories, and give free memory back to the system."""
        for drop in self._drop_functions:
            drop()
        gc.collect()
        return_free_memory()
