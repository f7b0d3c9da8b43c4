"""The proxying of one model call: its history is rendered, sent, and the answer sent back."""

from __future__ import annotations

from contextrender_bridge.asgi import Send
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client.fitting import RenderedRequest
from contextrender_bridge.dialects import DIALECTS
from contextrender_bridge.proxy.bodies import Body, RecentBodies
from contextrender_bridge.proxy.connections import Connections
from contextrender_bridge.proxy.controls import Controls, InvalidControl
from contextrender_bridge.proxy.conversations import ProxiedCall
from contextrender_bridge.proxy.history_rendering import Histories
from contextrender_bridge.proxy.refusals import Refusal
from contextrender_bridge.proxy.reply_start import ReplyStart, late_refusal
from contextrender_bridge.proxy.routing import Request
from contextrender_bridge.proxy.upstream import REFUSED, UsageCapture, pass_on, relay
from contextrender_bridge.proxy.usage_reporting import own_header, report
from contextrender_bridge.proxy.window import WindowedRequest, Windows

MAX_RETRIES = 2
"""The most requests after the first for one call."""
LAST_SHARE = 0.35
"""The share of a request that was refused twice to send last, if the provider gives no numbers."""
MAX_NEXT_SHARE = 0.9
"""The largest share of a request that was refused as too long to send with the next call."""


class ModelCalls:
    """Answers model calls; safe for any number at a time."""

    def __init__(self, http: Connections, histories: Histories, settings: Settings) -> None:
        """Call providers through `http`, and the service through `histories`."""
        self._http = http
        self._histories = histories
        self._settings = settings
        self._bodies = RecentBodies()
        self._windows = Windows()

    async def answer(self, request: Request, raw: bytes, send: Send, *, trusted: bool) -> None:
        """Answer a model call with the provider's reply; raise Unavailable.

        A `trusted` caller may use the proxy's own token.
        """
        url, onward = request.url, request.onward
        read = self._read(request, raw)
        try:
            controls = Controls.of(request.headers, self._settings, trusted=trusted)
        except InvalidControl as invalid:
            reason = f"invalid_{invalid.args[0]}"
            self._histories.failures.add(reason)
            added = [own_header("fail-open", reason)]
            await pass_on(self._http, "POST", url, onward, raw, send, added)
            return
        if read is None or controls.mode == "bypass":
            await pass_on(self._http, "POST", url, onward, raw, send, [])
            return
        call = await self._histories.fit(
            request.target.session, request.headers, read, request.dialect, controls
        )
        capture = UsageCapture(send)
        delivery = await self._send(call, request, raw, read, capture)
        self._histories.notes.add(call, capture.usage(), delivery)

    def _read(self, request: Request, raw: bytes) -> Body | None:
        """Return the request's body, None if it is compressed or no JSON object."""
        if not request.plain:
            return None
        try:
            read = self._bodies.read(raw, DIALECTS[request.dialect].key)
        except ValueError:
            return None
        return read if isinstance(read.fields, dict) else None

    async def _send(
        self, call: ProxiedCall, request: Request, raw: bytes, read: Body, send: UsageCapture
    ) -> str:
        """Send a call until the provider accepts it, answer the agent, and return the delivery.

        Each further request is smaller than the one before. Only a rendered history that is refused
        for an unknown reason is sent once in full.
        """
        size = call.conversation.size
        windowed = WindowedRequest(self._windows, raw, read, request.dialect, size)
        attempt = _Attempt(call, windowed)
        content = attempt.first()
        # After the provider has refused every form of a history, each call is tried only once.
        retries = 0 if call.conversation.hopeless or not attempt.can_change else MAX_RETRIES
        while True:
            async with self._http.answer("POST", request.url, request.onward, content) as response:
                start = ReplyStart(response)
                if attempt.can_change:
                    await start.read()
                following = attempt.following(content, start) if start.is_refused else None
                if following is None or not retries:
                    call.conversation.hopeless = start.is_refused and retries < MAX_RETRIES
                    if not start.is_refused:
                        attempt.take(content)
                    await self._answer(call, attempt, start, send)
                    attempt.note_late_refusal(content, send)
                    return attempt.delivery
            content, retries = following, retries - 1

    async def _answer(
        self, call: ProxiedCall, attempt: _Attempt, start: ReplyStart, send: Send
    ) -> None:
        """Send the provider's answer to the agent, with headers that report what was sent."""
        fit = call.fit
        if attempt.was_refused:
            self._histories.failures.add("refused")
            fit = RenderedRequest(fit.body, failure="refused")
        elif call.later is not None:
            patience = self._settings.render_timeout if call.controls.mode == "observe" else 0
            fit = await call.rendered(patience)
        headers = report(call, fit)
        if tokens := attempt.request.truncated_to:
            headers.append(own_header("truncated-to", tokens))
        await relay(start.response, send, headers, start.body() if attempt.can_change else None)


class _Attempt:
    """The content to send for one model call, first and after each refusal by the provider."""

    def __init__(self, call: ProxiedCall, request: WindowedRequest) -> None:
        """Prepare the call whose request the agent has sent."""
        self._call = call
        self.request = request
        self._renders = call.controls.mode == "render" and call.fit.changed
        self.can_change = call.controls.mode == "render" or call.controls.compacts
        """True if the proxy may send another content than the agent's."""
        self._tries = 0
        self.was_refused = False
        """True if a rendered history was refused for an unknown reason, and is sent in full."""

    @property
    def delivery(self) -> str:
        """The delivery to record: `rendered`, `full` or `holdout`."""
        fit = self._call.fit
        is_full = self.was_refused or (fit.failure and not fit.changed)
        return "full" if is_full else self._call.controls.delivery

    def first(self) -> bytes:
        """Return the first content, in full if the provider accepted only the full history."""
        conversation = self._call.conversation
        if self._renders and not conversation.refused:
            content = self.request.rendered(self._call.fit.body)
            share = (conversation.max_bytes or len(content)) / len(content)
            return (self.request.smaller(len(content), share) if share < 1 else None) or content
        self.was_refused = self._renders
        return self.request.full(conversation.max_bytes if self.can_change else None)

    def take(self, content: bytes) -> None:
        """Remember for the history's next call that the provider has accepted this content."""
        conversation = self._call.conversation
        conversation.refused = self.was_refused
        if self._tries and conversation.max_bytes:
            conversation.max_bytes = min(conversation.max_bytes, len(content))

    def note_late_refusal(self, content: bytes, reply: UsageCapture) -> None:
        """Remember the limit if the answer's first text is followed by a refusal as too long."""
        is_stream = reply.is_taken and "event-stream" in reply.content_type
        refusal = late_refusal(reply.plain_body) if is_stream and self.can_change else None
        if refusal is not None:
            self._tries += 1
            self._smaller(content, refusal)

    def following(self, content: bytes, start: ReplyStart) -> bytes | None:
        """Return the content to send after a refusal, None to answer with the refusal."""
        conversation = self._call.conversation
        self._tries += 1
        if start.refusal is not None:
            return self._smaller(content, start.refusal)
        if start.response.status_code != REFUSED or not self._renders:
            return None
        if not self.was_refused and not conversation.refused:
            self.was_refused = True
            return self.request.full(conversation.max_bytes)
        rendered = self.request.rendered(self._call.fit.body)
        if conversation.refused and len(rendered) < len(content):
            # The full history, which the provider accepted before, no longer fits the model.
            self.was_refused = conversation.refused = False
            return rendered
        return None

    def _smaller(self, content: bytes, refusal: Refusal) -> bytes | None:
        """Return smaller content after a refusal as too long, and remember the limit."""
        conversation, reply = self._call.conversation, self._call.fit.reply
        self.request.learn(refusal)
        tokens = reply["tokens_after"] if reply else conversation.size.tokens
        if tokens and not self.was_refused:
            conversation.max_tokens = refusal.next_budget(tokens)
        if self._tries > 1 or not refusal.prompt_tokens:
            # The provider gave no numbers, or the smaller request by its numbers was refused, too.
            conversation.max_bytes = int(len(content) * min(refusal.share, MAX_NEXT_SHARE))
        share = refusal.share if self._tries == 1 or refusal.prompt_tokens else LAST_SHARE
        return self.request.smaller(len(content), share)
