"""One model call: its history made to fit, sent to the provider, and what came back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx

from contextrender_bridge.base import wire
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client.fitting import RenderedRequest
from contextrender_bridge.dialects import DIALECTS
from contextrender_bridge.proxy.bodies import Bodies, Body
from contextrender_bridge.proxy.connections import Connections
from contextrender_bridge.proxy.controls import Controls, InvalidControl
from contextrender_bridge.proxy.conversations import ProxiedCall
from contextrender_bridge.proxy.history_rendering import Histories
from contextrender_bridge.proxy.routing import (
    Headers,
    Request,
)
from contextrender_bridge.proxy.upstream import (
    REFUSED,
    Send,
    UsageCapture,
    pass_on,
    read_reply,
    relay,
)
from contextrender_bridge.proxy.usage_reporting import own_header, report
from contextrender_bridge.proxy.window import REFUSALS, TRIES, Refusal, Windowed, Windows


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
        sent = await self._send(call, request, raw, heard)
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

    async def _send(self, call: ProxiedCall, request: Request, raw: bytes, send: Send) -> str:
        """Tells what the provider answered: `Controls.sent`, or "whole"."""
        url, onward = request.url, request.onward
        controls = call.asked
        renders = controls.mode == "render"
        if not (renders and call.fit.changed):
            patience = self._settings.render_timeout if controls.mode == "observe" else 0
            await self._send_whole(call, request, raw, send, lambda: call.told(patience))
            return "whole" if call.fit.failure else controls.sent

        async def whole(*, last: bool) -> bool:
            self._histories.failures.add("refused")
            told = RenderedRequest(call.fit.body, failure="refused")
            if last:
                return await self._send_whole(call, request, raw, send, lambda: _at_once(told))
            async with self._http.answer("POST", url, onward, raw) as response:
                return await _taken(response, send, report(call, told), last=last)

        async def shortened(*, last: bool) -> bool:
            ours = report(call, call.fit)
            content = wire.dumps(call.fit.body)
            async with self._http.answer("POST", url, onward, content) as response:
                said = await read_reply(response) if response.status_code == REFUSED else None
                refusal = Refusal.read(response.status_code, said) if said is not None else None
                if refusal is not None and call.fit.reply is not None:
                    call.conversation.room = refusal.room(call.fit.reply["tokens"]["after"])
                    if refusal.most:
                        self._windows.remember(call.fit.body.get("model"), refusal.most)
                return await _taken(response, send, ours, said, last=last)

        # What was refused once is the second choice from then on: a history that has outgrown the
        # model may have to be shortened after all.
        room = call.conversation.room
        first, second = (whole, shortened) if call.conversation.refused else (shortened, whole)
        if await first(last=False):
            return "whole" if first is whole else controls.sent
        if await second(last=True):
            call.conversation.refused = second is whole and call.conversation.room == room
        return "whole" if second is whole else controls.sent

    async def _send_whole(
        self,
        call: ProxiedCall,
        request: Request,
        raw: bytes,
        send: Send,
        told: Callable[[], Awaitable[RenderedRequest]],
    ) -> bool:
        """Sends a history as it came; where it is ours to shorten and the model does not take all
        of it, as much as fits. Whether the provider took it.
        """
        ours = call.asked.mode == "render" or call.asked.whole
        model, size = call.fit.body.get("model"), call.conversation.size
        windowed = Windowed(self._windows, request.dialect, model, raw, size)
        content = windowed.content() if ours else raw
        for left in reversed(range(TRIES if ours else 1)):
            async with self._http.answer("POST", request.url, request.onward, content) as response:
                may_be_less = left and response.status_code in REFUSALS
                said = await read_reply(response) if may_be_less else None
                if said is None or not windowed.refused(response.status_code, said):
                    headers = report(call, await told())
                    if windowed.shortened_to:
                        headers.append(own_header("truncated-to", windowed.shortened_to))
                    await relay(response, send, headers, said)
                    return response.status_code != REFUSED
            content = windowed.content()
        return False


async def _at_once(fit: RenderedRequest) -> RenderedRequest:
    return fit


async def _taken(
    response: httpx.Response, send: Send, ours: Headers, read: bytes | None = None, *, last: bool
) -> bool:
    """Whether the provider took the request. Its reply is sent on; a refusal only if `last`."""
    refused = response.status_code == REFUSED
    if last or not refused:
        await relay(response, send, ours, read)
    return not refused
