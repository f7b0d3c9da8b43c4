"""The proxying of model calls, and the release of memory after large ones.

For each call, render the history, send it, and send the answer to the agent.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

from contextrender_bridge.asgi import Send
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.base.usage import ProviderReply
from contextrender_bridge.client.fitting import RenderedRequest
from contextrender_bridge.dialects import DIALECTS
from contextrender_bridge.process_memory import return_free_memory
from contextrender_bridge.proxy.attempts import CallAttempts, WindowedRequest, Windows
from contextrender_bridge.proxy.bodies import LARGE_CHARACTERS, Body, RecentBodies
from contextrender_bridge.proxy.connections import Connections, Unavailable
from contextrender_bridge.proxy.controls import Controls, InvalidControl
from contextrender_bridge.proxy.conversations import ProxiedCall
from contextrender_bridge.proxy.history_rendering import Histories
from contextrender_bridge.proxy.replies import ReplyStart, UsageCapture, pass_on, relay
from contextrender_bridge.proxy.routing import Request
from contextrender_bridge.proxy.usage_reporting import own_header, report

RELEASE_SECONDS = 30.0
"""The seconds without a large request after which the proxy drops large histories from memory."""


class ModelCalls:
    """The proxy's handler of model calls; several calls may run at the same time."""

    def __init__(
        self,
        http: Connections,
        histories: Histories,
        settings: Settings,
    ) -> None:
        """Call providers through `http`, and the service through `histories`."""
        self._http = http
        self._histories = histories
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
            controls = Controls.of(request.headers, self._settings, is_trusted=is_trusted)
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
        call = await self._histories.fit(
            request.target.session, request.headers, body, request.dialect, controls
        )
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
            self._histories.notes.add(call, None, call.controls.delivery, reply)
            raise
        self._histories.notes.add(call, capture.usage(), delivery, capture.reply())

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
        windowed = WindowedRequest(
            self._windows, raw, body, request.dialect, call.conversation.size
        )
        attempts = CallAttempts(call, windowed)
        content = attempts.first_content()
        while True:
            async with self._http.answer("POST", request.url, request.onward, content) as response:
                start = ReplyStart(response)
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
