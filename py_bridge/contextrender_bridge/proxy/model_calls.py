"""One model call: its history made to fit, sent to the provider, and what came back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import httpx

from contextrender_bridge.base import wire
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client.fitting import Fitted
from contextrender_bridge.dialects import DIALECTS
from contextrender_bridge.proxy.bodies import Bodies, Body
from contextrender_bridge.proxy.connections import Connections
from contextrender_bridge.proxy.controls import Controls, InvalidControl
from contextrender_bridge.proxy.conversations import Call
from contextrender_bridge.proxy.heard import Heard, own_header, report, used_by
from contextrender_bridge.proxy.histories import Histories
from contextrender_bridge.proxy.recall.driver import FORMATS, Recalling
from contextrender_bridge.proxy.routing import (
    Headers,
    Target,
    is_plain,
    request_headers,
)
from contextrender_bridge.proxy.upstream import (
    REFUSED,
    Send,
    answer,
    pass_on,
    read_reply,
    relay,
)
from contextrender_bridge.proxy.window import REFUSALS, TRIES, Refusal, Windowed, Windows


@dataclass(frozen=True)
class Asked:
    """A request for a model's reply, and what its caller may use of this process's."""

    target: Target
    dialect: str
    url: str
    headers: Headers = field(repr=False)
    raw: bytes = field(repr=False)
    trusted: bool = False


class ModelCalls:
    """Answers model calls; safe for any number at a time."""

    def __init__(self, http: Connections, histories: Histories, settings: Settings) -> None:
        """`http` reaches providers, `histories` the service."""
        self._http = http
        self._histories = histories
        self._settings = settings
        self._bodies = Bodies()
        self._windows = Windows()

    async def answer(self, asked: Asked, send: Send) -> None:
        """Sends the provider's reply. Raises Unavailable."""
        url, onward = asked.url, request_headers(asked.headers)
        read = self._read(asked)
        try:
            controls = Controls.of(asked.headers, self._settings, trusted=asked.trusted)
        except InvalidControl as invalid:
            reason = f"invalid_{invalid.args[0]}"
            self._histories.failures.add(reason)
            ours = [own_header("fail-open", reason)]
            await pass_on(self._http, "POST", url, onward, asked.raw, send, ours)
            return
        if read is None or controls.mode == "bypass":
            await pass_on(self._http, "POST", url, onward, asked.raw, send, [])
            return
        call = await self._histories.fit(
            asked.target.session, asked.headers, read, asked.dialect, controls
        )
        heard = Heard(send)
        sent = await self._send(call, asked, url, onward, heard)
        self._histories.notes.add(call, used_by(call, heard.usage(), sent))

    def _read(self, asked: Asked) -> Body | None:
        """The request as JSON; None when it is nothing that we read."""
        if not is_plain(asked.headers):
            return None
        try:
            read = self._bodies.read(asked.raw, DIALECTS[asked.dialect].key)
        except ValueError:
            return None
        return read if isinstance(read.fields, dict) else None

    async def _send(self, call: Call, asked: Asked, url: str, onward: Headers, send: Send) -> str:
        """Tells what the provider answered: `Controls.sent`, or "whole"."""
        controls = call.asked
        renders = controls.mode == "render"
        recalls = renders and controls.recall and call.fit.reply is not None
        recalls = recalls and FORMATS[asked.dialect].offers(call.fit.body)
        if not recalls and not (renders and call.fit.changed):
            patience = self._settings.deadline if controls.mode == "observe" else 0
            await self._send_whole(call, asked, url, onward, send, lambda: call.told(patience))
            return "whole" if call.fit.failure else controls.sent

        async def whole(*, last: bool) -> bool:
            self._histories.failures.add("refused")
            told = Fitted(call.fit.body, failure="refused")
            if last:
                return await self._send_whole(
                    call, asked, url, onward, send, lambda: _at_once(told)
                )
            async with answer(self._http, "POST", url, onward, asked.raw) as response:
                return await _taken(response, send, report(call, told), last=last)

        async def shortened(*, last: bool) -> bool:
            ours = report(call, call.fit)
            if recalls:
                form = FORMATS[asked.dialect]
                recalling = Recalling(self._http, self._histories.client, call, form, send)
                return await recalling.run(url, onward, dict(call.fit.body), ours, last=last)
            content = wire.dumps(call.fit.body)
            async with answer(self._http, "POST", url, onward, content) as response:
                raw = await read_reply(response) if response.status_code == REFUSED else None
                refusal = Refusal.read(response.status_code, raw) if raw is not None else None
                if refusal is not None and call.fit.reply is not None:
                    call.conversation.room = refusal.room(call.fit.reply["tokens"]["after"])
                    if refusal.most:
                        self._windows.remember(call.fit.body.get("model"), refusal.most)
                return await _taken(response, send, ours, raw, last=last)

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
        call: Call,
        asked: Asked,
        url: str,
        onward: Headers,
        send: Send,
        told: Callable[[], Awaitable[Fitted]],
    ) -> bool:
        """Sends a history as it came; where it is ours to shorten and the model does not take all
        of it, as much as fits. Whether the provider took it.
        """
        ours = call.asked.mode == "render" or call.asked.whole
        model, size = call.fit.body.get("model"), call.conversation.size
        request = Windowed(self._windows, asked.dialect, model, asked.raw, size)
        content = request.content() if ours else asked.raw
        for left in reversed(range(TRIES if ours else 1)):
            async with answer(self._http, "POST", url, onward, content) as response:
                may_be_less = left and response.status_code in REFUSALS
                raw = await read_reply(response) if may_be_less else None
                if raw is None or not request.refused(response.status_code, raw):
                    headers = report(call, await told())
                    if request.shortened_to:
                        headers.append(own_header("window", request.shortened_to))
                    await relay(response, send, headers, raw)
                    return response.status_code != REFUSED
            content = request.content()
        return False


async def _at_once(fit: Fitted) -> Fitted:
    return fit


async def _taken(
    response: httpx.Response, send: Send, ours: Headers, read: bytes | None = None, *, last: bool
) -> bool:
    """Whether the provider took the request. Its reply is sent on; a refusal only if `last`."""
    refused = response.status_code == REFUSED
    if last or not refused:
        await relay(response, send, ours, read)
    return not refused
