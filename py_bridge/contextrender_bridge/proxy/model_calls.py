"""One model call: its history made to fit, sent to the provider, and what came back."""

from __future__ import annotations

from dataclasses import dataclass, field

import httpx

from contextrender_bridge import wire
from contextrender_bridge.client.fitting import Fitted
from contextrender_bridge.proxy.connections import Connections
from contextrender_bridge.proxy.controls import Controls, InvalidControl
from contextrender_bridge.proxy.conversations import Call
from contextrender_bridge.proxy.headers import Headers, request_headers
from contextrender_bridge.proxy.heard import Heard, used_by
from contextrender_bridge.proxy.histories import Histories
from contextrender_bridge.proxy.other_providers import ORIGIN
from contextrender_bridge.proxy.provider_requests import is_other, refusal_of
from contextrender_bridge.proxy.recall.driver import FORMATS, Recalling
from contextrender_bridge.proxy.routing import Target, json_body, own_header, report
from contextrender_bridge.proxy.upstream import (
    REFUSED,
    Send,
    answer,
    pass_on,
    relay,
    send_error,
)
from contextrender_bridge.settings import Settings


@dataclass(frozen=True)
class Asked:
    """A request for a model's reply, and what its caller may use of this process's."""

    target: Target
    dialect: str
    url: str
    headers: Headers = field(repr=False)
    raw: bytes = field(repr=False)
    trusted: bool = False
    spends: bool = False


class ModelCalls:
    """Answers model calls; safe for any number at a time."""

    def __init__(self, http: Connections, histories: Histories, settings: Settings) -> None:
        """`http` reaches providers, `histories` the service."""
        self._http = http
        self._histories = histories
        self._settings = settings

    async def answer(self, asked: Asked, send: Send) -> None:
        """Sends the provider's reply. Raises Unavailable."""
        url, onward = asked.url, request_headers(asked.headers)
        body = json_body(asked.headers, asked.raw)
        if body is not None and asked.dialect == "chat" and self._is_others(body):
            refused = refusal_of(body, self._settings.providers, allowed=asked.spends)
            if refused is not None:
                await send_error(send, *refused, [])
                return
            url, onward = f"{ORIGIN}{asked.target.path}", []
        try:
            controls = Controls.of(asked.headers, self._settings, trusted=asked.trusted)
        except InvalidControl as invalid:
            reason = f"invalid_{invalid.args[0]}"
            self._histories.failures.add(reason)
            ours = [own_header("fail-open", reason)]
            await pass_on(self._http, "POST", url, onward, asked.raw, send, ours)
            return
        if body is None or controls.mode == "bypass":
            await pass_on(self._http, "POST", url, onward, asked.raw, send, [])
            return
        call = await self._histories.fit(
            asked.target.session, asked.headers, body, asked.dialect, controls
        )
        heard = Heard(send)
        sent = await self._send(call, asked, url, onward, heard)
        self._histories.notes.add(call, used_by(call, heard.usage(), sent))

    def _is_others(self, body: dict[str, object]) -> bool:
        return bool(self._settings.providers) and is_other(body)

    async def _send(self, call: Call, asked: Asked, url: str, onward: Headers, send: Send) -> str:
        """Tells what the provider answered: `Controls.sent`, or "whole"."""
        controls = call.asked
        renders = controls.mode == "render"
        recalls = renders and controls.recall and call.fit.reply is not None
        recalls = recalls and FORMATS[asked.dialect].offers(call.fit.body)
        if not recalls and not (renders and call.fit.changed):
            async with answer(self._http, "POST", url, onward, asked.raw) as response:
                told = await call.told(self._settings.deadline if controls.mode == "observe" else 0)
                await relay(response, send, report(call, told))
            return "whole" if call.fit.failure else controls.sent

        async def whole(*, last: bool) -> bool:
            self._histories.failures.add("refused")
            told = Fitted(call.fit.body, failure="refused")
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
                return await _taken(response, send, ours, last=last)

        # What was refused once is the second choice from then on: a history that has outgrown the
        # model may have to be shortened after all.
        first, second = (whole, shortened) if call.conversation.refused else (shortened, whole)
        if await first(last=False):
            return "whole" if first is whole else controls.sent
        if await second(last=True):
            call.conversation.refused = second is whole
        return "whole" if second is whole else controls.sent


async def _taken(response: httpx.Response, send: Send, ours: Headers, *, last: bool) -> bool:
    """Whether the provider took the request. Its reply is sent on; a refusal only if `last`."""
    refused = response.status_code == REFUSED
    if last or not refused:
        await relay(response, send, ours)
    return not refused
