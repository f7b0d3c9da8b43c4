"""A model call with recall: asks the model again for as long as it only recalls.

Each reply is read to its end before any of it is sent on: only then it is known whether the agent
is to see it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import httpx

from contextrender_bridge.base import wire
from contextrender_bridge.base.errors import ContextRenderError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.client.fitting import reason_of
from contextrender_bridge.proxy.connections import Connections
from contextrender_bridge.proxy.conversations import Call, remember_recalled
from contextrender_bridge.proxy.events import events
from contextrender_bridge.proxy.headers import Headers, response_headers, without
from contextrender_bridge.proxy.recall.chat import ChatFormat
from contextrender_bridge.proxy.recall.messages import MessagesFormat
from contextrender_bridge.proxy.recall.responses import ResponsesFormat
from contextrender_bridge.proxy.recall.turns import Answer, Format, Recall, Turn, added
from contextrender_bridge.proxy.upstream import (
    REFUSED,
    Send,
    answer,
    read_reply,
    relay,
    send_whole,
)

ROUNDS = 3
"""How often one model call may recall before it has to go on without."""

MOST_RESULTS = 5
CALL_TOKENS = 8
"""More than a call costs beside its name and arguments; none of their tokens is below a byte."""
SECONDS = 10.0

FORMATS: dict[str, Format] = {
    "chat": ChatFormat(),
    "messages": MessagesFormat(),
    "responses": ResponsesFormat(),
}
_ODD = (LookupError, TypeError, AttributeError, ValueError)
"""What comes of a reply that is not as the API's are."""

log = logging.getLogger("contextrender")


class Recalling:
    """One model call, in one or several requests to the provider."""

    def __init__(
        self,
        http: Connections,
        client: AsyncContextRender,
        call: Call,
        form: Format,
        send: Send,
    ) -> None:
        """`call` is what was made of the agent's request."""
        self._http = http
        self._client = client
        self._call = call
        self._form = form
        self._send = send
        self._recalled: dict[int, int] = {}
        self._used: Json = {}

    async def run(
        self, url: str, headers: Headers, body: Json, ours: Headers, *, last: bool
    ) -> bool:
        """Answers the agent. `body` is the request without the tool. Raises Unavailable.

        False: the provider refused one of the requests, and unless this was the `last` way to ask,
        the agent has got nothing yet.
        """
        body = self._form.offered(body)
        headers = [*without(headers, b"accept-encoding"), (b"accept-encoding", b"identity")]
        for rounds in range(ROUNDS + 1):
            async with answer(self._http, "POST", url, headers, wire.dumps(body)) as response:
                refused = response.status_code == REFUSED
                if refused and not last:
                    return False
                kind = response.headers.get("content-type", "")
                streams = bool(body.get("stream")) and "event-stream" in kind
                if not response.is_success or not (streams or "json" in kind):
                    await relay(response, self._send, self._headers(ours))
                    return not refused
                raw = await read_reply(response)
                turn, reply = self._read(raw, streams=streams)
                if not turn.only_recalls or rounds == ROUNDS:
                    await self._send_on(response, raw, turn, reply, ours, streams=streams)
                    return True
            self._used = added(self._used, reply.get("usage"))
            body = self._form.goes_on(body, turn, await self._answers(turn))
        return True

    def _read(self, raw: bytes, *, streams: bool) -> tuple[Turn, Json]:
        """What a reply is; of one that is not as the API's are, nothing."""
        try:
            if streams:
                told = [event.data for event in events(raw) if event.data is not None]
                reply = self._form.whole(told)
            else:
                reply = wire.loads(raw)
            return self._form.turn(reply), reply
        except _ODD:
            return Turn(), {}

    async def _send_on(
        self,
        response: httpx.Response,
        raw: bytes,
        turn: Turn,
        reply: Json,
        ours: Headers,
        *,
        streams: bool,
    ) -> None:
        """Sends a reply without our calls, with what all replies used."""
        if turn.ours:
            await self._answers(turn)
        if turn.ours or (self._used and reply):
            with suppress(*_ODD):
                raw = self._changed(raw, turn, reply, streams=streams)
        kept = without(
            response_headers(response.headers.raw),
            b"content-length",
            b"content-type",
            b"content-encoding",
        )
        kind = response.headers.get("content-type", "application/json").encode()
        headers = [*kept, *self._headers(ours)]
        await send_whole(self._send, response.status_code, headers, raw, kind)

    def _changed(self, raw: bytes, turn: Turn, reply: Json, *, streams: bool) -> bytes:
        if streams:
            return b"".join(self._form.events_without(events(raw), self._used))
        reply = self._form.without(reply) if turn.ours else reply
        if self._used and "usage" in reply:
            reply = {**reply, "usage": added(self._used, reply["usage"])}
        return wire.dumps(reply)

    def _headers(self, ours: Headers) -> Headers:
        count = str(len(self._recalled)).encode()
        return [*ours, (b"x-contextrender-recalled", count)]

    async def _answers(self, turn: Turn) -> list[Answer]:
        """Our calls' answers. Where the agent has calls to answer too, they show up next time."""
        answers = [await self._answer(recall) for recall in turn.ours]
        remember_recalled(self._call, self._recalled)
        return answers

    async def _answer(self, recall: Recall) -> Answer:
        """What the tool says; when it cannot, that."""
        try:
            content = await asyncio.wait_for(self._found(recall), SECONDS)
        except Exception as failure:
            if not isinstance(failure, (ContextRenderError, ValueError)):
                log.warning("recall failed (%s)", reason_of(failure))
            content = self._form.content("Nothing could be recalled.", "")
        return Answer(recall, content)

    async def _found(self, recall: Recall) -> Any:
        call, transcript = self._call, self._call.fit.transcript
        asked = wire.loads(recall.arguments or "{}")
        if transcript is None or not isinstance(asked, dict):
            raise ValueError
        wanted = asked.get("results")
        positions = [p for p in wanted if type(p) is int] if isinstance(wanted, list) else []
        reply = await self._client.recall(
            call.session,
            results=positions[:MOST_RESULTS] or None,
            query=None if positions else str(asked.get("query") or ""),
            limit=None if positions else 3 * MOST_RESULTS,
            branch=call.conversation.branch,
            token=call.asked.token,
        )
        plan = call.fit.plan
        contents: list[Any] = []
        for found in reply["results"]:
            position = found["position"]
            here = found["branch"] == call.conversation.branch
            whole = here and plan is not None and plan.shows_whole(position)
            if (whole and not positions) or (here and position in self._recalled):
                continue
            if len(contents) == MOST_RESULTS:
                break
            header = f"[result {position} of {found['name']} {found['arguments']}]"
            original = found["message"].get("content")
            if here:
                call_bytes = len(f"{found['name']}{found['arguments']}".encode())
                self._recalled[position] = found["tokens"] + CALL_TOKENS + call_bytes
                original = transcript.result(position)
            contents.append(self._form.content(header, original))
        if not contents:
            return self._form.content("There is nothing more to recall for that.", "")
        return self._form.joined(contents)
