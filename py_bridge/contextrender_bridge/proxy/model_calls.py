"""One model call: its history made to fit, sent to the provider, and what came back."""

from __future__ import annotations

from contextrender_bridge.asgi import Send
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client.fitting import RenderedRequest
from contextrender_bridge.dialects import DIALECTS
from contextrender_bridge.proxy.bodies import Bodies, Body
from contextrender_bridge.proxy.connections import Connections
from contextrender_bridge.proxy.controls import Controls, InvalidControl
from contextrender_bridge.proxy.conversations import ProxiedCall
from contextrender_bridge.proxy.history_rendering import Histories
from contextrender_bridge.proxy.reply_start import ReplyStart
from contextrender_bridge.proxy.routing import Request
from contextrender_bridge.proxy.upstream import REFUSED, UsageCapture, pass_on, relay
from contextrender_bridge.proxy.usage_reporting import own_header, report
from contextrender_bridge.proxy.window import WindowedRequest, Windows

MOST_EXTRA = 2
"""Requests beside the first, for one call."""
LAST_SHARE = 0.35
"""Of what was refused twice, so much is sent if the provider gives no numbers."""
AGAIN_AT_MOST = 0.9
"""Of what was refused as too long, at most so much is sent with the next call."""


class ModelCalls:
    """Answers model calls; safe for any number at a time."""

    def __init__(self, http: Connections, histories: Histories, settings: Settings) -> None:
        """`http` reaches providers, `histories` the service."""
        self._http = http
        self._histories = histories
        self._settings = settings
        self._bodies = Bodies()
        self._windows = Windows()

    async def answer(self, request: Request, raw: bytes, send: Send, *, trusted: bool) -> None:
        """Sends the provider's reply. `trusted`: the caller may use what this process has.

        Raises Unavailable.
        """
        url, onward = request.url, request.onward
        read = self._read(request, raw)
        try:
            controls = Controls.of(request.headers, self._settings, trusted=trusted)
        except InvalidControl as invalid:
            reason = f"invalid_{invalid.args[0]}"
            self._histories.failures.add(reason)
            ours = [own_header("fail-open", reason)]
            await pass_on(self._http, "POST", url, onward, raw, send, ours)
            return
        if read is None or controls.mode == "bypass":
            await pass_on(self._http, "POST", url, onward, raw, send, [])
            return
        call = await self._histories.fit(
            request.target.session, request.headers, read, request.dialect, controls
        )
        heard = UsageCapture(send)
        sent = await self._send(call, request, raw, read, heard)
        self._histories.notes.add(call, heard.usage(), sent)

    def _read(self, request: Request, raw: bytes) -> Body | None:
        """The request as JSON; None when it is nothing that we read."""
        if not request.plain:
            return None
        try:
            read = self._bodies.read(raw, DIALECTS[request.dialect].key)
        except ValueError:
            return None
        return read if isinstance(read.fields, dict) else None

    async def _send(
        self, call: ProxiedCall, request: Request, raw: bytes, read: Body, send: Send
    ) -> str:
        """Send a call until the provider takes it, and its answer back; return what it was sent.

        Each further request is smaller than the one before. The exception is a shortened history
        that is refused for an unknown reason: it is sent once in full.
        """
        size = call.conversation.size
        windowed = WindowedRequest(self._windows, raw, read, request.dialect, size)
        attempt = _Attempt(call, windowed)
        content = attempt.first()
        # A history that was refused in the end is tried once until it is taken.
        extra = 0 if call.conversation.hopeless or not attempt.is_ours else MOST_EXTRA
        while True:
            async with self._http.answer("POST", request.url, request.onward, content) as response:
                start = ReplyStart(response)
                if attempt.is_ours:
                    await start.read()
                following = attempt.following(content, start, raw) if start.is_refused else None
                if following is None or not extra:
                    call.conversation.hopeless = start.is_refused and extra < MOST_EXTRA
                    if not start.is_refused:
                        attempt.take(content)
                    await self._answer(call, attempt, start, send)
                    return attempt.delivery
            content, extra = following, extra - 1

    async def _answer(
        self, call: ProxiedCall, attempt: _Attempt, start: ReplyStart, send: Send
    ) -> None:
        """Send the provider's answer on, with headers of what it was sent."""
        fit = call.fit
        if attempt.was_refused:
            self._histories.failures.add("refused")
            fit = RenderedRequest(fit.body, failure="refused")
        elif call.later is not None:
            patience = self._settings.render_timeout if call.asked.mode == "observe" else 0
            fit = await call.told(patience)
        headers = report(call, fit)
        if tokens := attempt.request.truncated_to:
            headers.append(own_header("truncated-to", tokens))
        await relay(start.response, send, headers, start.body() if attempt.is_ours else None)


class _Attempt:
    """What of one model call is sent, and what next if the provider refuses it."""

    def __init__(self, call: ProxiedCall, request: WindowedRequest) -> None:
        """`request` is the agent's."""
        self._call = call
        self.request = request
        self._renders = call.asked.mode == "render" and call.fit.changed
        self.is_ours = call.asked.mode == "render" or call.asked.whole
        self._tries = 0
        self.was_refused = False
        """Whether a shortened history was refused for an unknown reason, and is sent in full."""

    @property
    def delivery(self) -> str:
        """What the model was sent, as the service records it."""
        fit = self._call.fit
        is_whole = self.was_refused or (fit.failure and not fit.changed)
        return "full" if is_whole else self._call.asked.delivery

    def first(self) -> bytes:
        """Return what is sent first: a history that was taken only in full is sent so again."""
        conversation = self._call.conversation
        if self._renders and not conversation.refused:
            content = self.request.rendered(self._call.fit.body)
            most = conversation.most or len(content)
            share = most / len(content)
            return (self.request.smaller(len(content), share) if share < 1 else None) or content
        self.was_refused = self._renders
        return self.request.whole(conversation.most if self.is_ours else None)

    def take(self, content: bytes) -> None:
        """Remember that the provider has taken this, for the next call of the history."""
        conversation = self._call.conversation
        conversation.refused = self.was_refused
        if self._tries and conversation.most:
            conversation.most = min(conversation.most, len(content))

    def following(self, content: bytes, start: ReplyStart, raw: bytes) -> bytes | None:
        """Return what to send after a refusal; None if the provider's answer goes back."""
        conversation, refusal = self._call.conversation, start.refusal
        self._tries += 1
        if refusal is not None:
            self.request.learn(refusal)
            shown = self._call.fit.reply
            tokens = shown["tokens_after"] if shown else conversation.size.tokens
            if tokens and not self.was_refused:
                conversation.room = refusal.room(tokens)
            if self._tries > 1 or not refusal.counted:
                # The provider's numbers are used elsewhere, unless they were of no use.
                conversation.most = int(len(content) * min(refusal.share, AGAIN_AT_MOST))
            share = refusal.share if self._tries == 1 or refusal.counted else LAST_SHARE
            return self.request.smaller(len(content), share)
        if start.response.status_code != REFUSED or not self._renders:
            return None
        if not self.was_refused and not conversation.refused:
            self.was_refused = True
            return self.request.whole(conversation.most)
        rendered = self.request.rendered(self._call.fit.body)
        if conversation.refused and len(rendered) < len(content):
            # It has outgrown the model after all.
            self.was_refused = conversation.refused = False
            return rendered
        return None
