"""A model call with recall: asks the model again for as long as it only recalls.

Long because the stages of one reply share its state, whole or streamed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx

from contextrender_bridge.base import wire
from contextrender_bridge.base.errors import ContextRenderError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.client.fitting import reason_of
from contextrender_bridge.proxy.connections import Connections, Unavailable
from contextrender_bridge.proxy.conversations import ProxiedCall, remember_recalled
from contextrender_bridge.proxy.events import Event, events
from contextrender_bridge.proxy.recall.chat import ChatFormat
from contextrender_bridge.proxy.recall.messages import MessagesFormat
from contextrender_bridge.proxy.recall.responses import ResponsesFormat
from contextrender_bridge.proxy.recall.turns import (
    Answer,
    Format,
    Recall,
    Stream,
    Streamed,
    Turn,
    added,
)
from contextrender_bridge.proxy.routing import Headers, first, response_headers, without
from contextrender_bridge.proxy.upstream import (
    REFUSED,
    Send,
    read_reply,
    relay,
    send_whole,
    start,
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

log = logging.getLogger("contextrender")


class Recalling:
    """One model call, in one or several requests to the provider."""

    def __init__(
        self,
        http: Connections,
        client: AsyncContextRender,
        call: ProxiedCall,
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
        self._started = False

    async def run(
        self, url: str, headers: Headers, body: Json, ours: Headers, *, last: bool
    ) -> bool:
        """Answers the agent. `body` is the request without the tool. Raises Unavailable.

        False: the provider refused one of the requests, and unless this was the `last` way to ask,
        the agent has got nothing yet.
        """
        try:
            return await self._run(url, headers, body, ours, last=last)
        except Unavailable as failure:
            if not self._started:
                raise
            log.warning("the provider's reply broke off (%s)", failure.args[0])
            return True

    async def _run(
        self, url: str, headers: Headers, body: Json, ours: Headers, *, last: bool
    ) -> bool:
        body = self._form.offered(body)
        headers = [*without(headers, b"accept-encoding"), (b"accept-encoding", b"identity")]
        sent = Streamed()
        for rounds in range(ROUNDS + 1):
            final = rounds == ROUNDS
            async with self._http.answer("POST", url, headers, wire.dumps(body)) as response:
                if response.status_code == REFUSED and not self._started:
                    if last:
                        await self._give_up(response, ours)
                    return False
                if body.get("stream") and _is_stream(response):
                    turn = await self._stream(response, sent, ours, final=final)
                elif self._started or not _is_json(response):
                    await self._give_up(response, ours)
                    return True
                else:
                    turn = await self._plain(response, ours, final=final)
            if turn is None:
                return True
            body = self._form.goes_on(body, turn, await self._answers(turn))
        return True

    async def _plain(self, response: httpx.Response, ours: Headers, *, final: bool) -> Turn | None:
        """Sends a plain reply on. A turn: the model is to be asked again instead."""
        raw = await read_reply(response)
        try:
            reply = wire.loads(raw)
            turn = self._form.turn(reply)
        except (ValueError, LookupError, TypeError, AttributeError):
            reply, turn = None, Turn()
        if turn.ours and not turn.others and not final:
            self._used = added(self._used, reply.get("usage"))
            return turn
        if turn.ours:
            await self._answers(turn)
            reply = self._form.without(reply)
        if self._used and isinstance(reply, dict) and "usage" in reply:
            reply = {**reply, "usage": added(self._used, reply["usage"])}
        if turn.ours or self._used:
            raw = wire.dumps(reply)
        kept = without(
            response_headers(response.headers.raw),
            b"content-length",
            b"content-type",
            b"content-encoding",
        )
        kind = response.headers.get("content-type", "application/json").encode()
        await send_whole(self._send, response.status_code, [*kept, *self._headers(ours)], raw, kind)
        return None

    async def _stream(
        self, response: httpx.Response, sent: Streamed, ours: Headers, *, final: bool
    ) -> Turn | None:
        """Sends a stream on as far as it is for the agent. A turn: the model is asked again."""
        stream = self._form.stream(sent, final=final)
        try:
            async for event in events(_chunks(response)):
                _take(stream, event)
                await self._flush(stream, response, ours)
        except httpx.HTTPError as error:
            stream.release()
            await self._flush(stream, response, ours)
            raise Unavailable(type(error).__name__, isinstance(error, httpx.ReadTimeout)) from error
        _end(stream)
        await self._flush(stream, response, ours)
        if stream.goes_on:
            return stream.turn
        if not self._started:
            await self._start(response, ours)
        await self._answers(stream.turn)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        return None

    async def _flush(self, stream: Stream, response: httpx.Response, ours: Headers) -> None:
        if not stream.ready:
            return
        if not self._started:
            await self._start(response, ours)
        chunk = b"".join(stream.ready)
        stream.ready.clear()
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def _start(self, response: httpx.Response, ours: Headers) -> None:
        """Begins the reply. Its length is not yet known: other replies may follow the first."""
        self._started = True
        kept = without(
            response_headers(response.headers.raw), b"content-length", b"content-encoding"
        )
        await start(response.status_code, kept, self._send, self._headers(ours))

    async def _give_up(self, response: httpx.Response, ours: Headers) -> None:
        """A reply that cannot be read: sent on, or where one has begun already, that breaks off."""
        if not self._started:
            await relay(response, self._send, self._headers(ours))

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


def _is_stream(response: httpx.Response) -> bool:
    return response.is_success and "text/event-stream" in response.headers.get("content-type", "")


def _is_json(response: httpx.Response) -> bool:
    kind = first(response.headers.raw, b"content-type") or response.headers.get("content-type", "")
    return response.is_success and "json" in kind


def _take(stream: Stream, event: Event) -> None:
    """One event; one that is not as the API's are goes to the agent as it came."""
    try:
        stream.read(event)
    except (LookupError, TypeError, AttributeError, ValueError):
        stream.release()
        stream.put(event.raw)


def _end(stream: Stream) -> None:
    """No more events; of a reply that is not as the API's are, the rest goes as it came."""
    try:
        stream.end()
    except (LookupError, TypeError, AttributeError, ValueError):
        stream.turn = Turn()
        stream.release()


async def _chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    async for chunk in response.aiter_bytes():
        yield chunk
