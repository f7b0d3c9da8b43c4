"""Replies of providers: their start, their forwarding byte for byte, and their usage.

Some providers answer 200 and refuse a long prompt within the reply: as the first event of a stream,
or as a failed response. So the proxy reads a reply until it is known to be a refusal or an answer,
and sends it to the agent only then. Long because both ends of a reply are read alike.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import AsyncIterator, Sequence
from functools import cached_property

import httpx

from contextrender_bridge.asgi import Headers, Message, Send
from contextrender_bridge.base import wire
from contextrender_bridge.base.contents import Decoder, decode_body
from contextrender_bridge.base.usage import ProviderReply, Usage
from contextrender_bridge.base.usage_reading import error_code_of, read_error_code, read_usage
from contextrender_bridge.base.wire import Json
from contextrender_bridge.proxy.connections import Connections, Content, Unavailable
from contextrender_bridge.proxy.refusals import Refusal
from contextrender_bridge.proxy.request import response_headers

MAX_REPLY_BYTES = 32 * 2**20
"""The largest reply, in bytes, that is kept to read its usage."""
BROKEN_OFF = "broken_off"
"""The error code of a reply whose connection failed before its end."""
REFUSED = 400
"""The status of a request that a provider refuses, such as one with a changed history."""
SHORTEST_ANSWER = 1024
"""A reply of more bytes whose beginning has no error's fields is an answer."""
LONGEST_ERROR = 64 * 1024
"""The largest size of an error in bytes. A longer reply is an answer."""
OK, ERROR = 200, 400
LAST_EVENTS = 4
"""The number of events at the end of a stream that are searched for a refusal."""

_BEGINNINGS = frozenset(
    {"response.created", "response.in_progress", "response.queued", "message_start", "ping"}
)
"""Types of events before the model's first text."""
_FAILURES = frozenset({"error", "response.failed", "response.incomplete"})
_FAILED_ENDS = ("error", "model_context_window_exceeded")
"""Finish reasons of an answer that failed."""
_ERROR_EVENT = re.compile(rb"^event: ?error", re.M)
_FAILED = re.compile(
    rb'"type" ?: ?"error"|"error" ?: ?[{"]|"status" ?: ?"failed"|"object" ?: ?"error"'
    rb'|"(?:finish|stop)_reason" ?: ?"model_context'
    rb'|"base_resp" ?: ?\{\s*"status_code" ?: ?[1-9]'  # MiniMax
)
_END = re.compile(rb"\r?\n\r?\n|\r\r")
_END_MARKER = b"[DONE]"
"""The data of a stream's last event, also after an error."""

log = logging.getLogger("contextrender")


class ReplyStart:
    """The first bytes of a reply. `read` sets `refusal` if they refuse the prompt as too long."""

    def __init__(self, response: httpx.Response) -> None:
        """Wrap a response without reading it. `read` reads its first bytes."""
        self.response = response
        self.chunks: list[bytes] = []
        self.refusal: Refusal | None = None
        self._remaining_chunks = response.aiter_raw()
        self._decoder = Decoder(response.headers.get("content-encoding", ""))
        self._text = bytearray()

    @property
    def is_refused(self) -> bool:
        """True if the provider refused the request, for any reason."""
        return self.refusal is not None or self.response.status_code >= ERROR

    async def read(self) -> ReplyStart:
        """Read until the reply is known to be an answer or a refusal, and set `refusal`.

        Stop at the first content of an answer, or if the reply cannot be decoded. Read an error up
        to `LONGEST_ERROR` bytes. Raise Unavailable if the connection fails before the first byte,
        or within an error.
        """
        is_stream = "event-stream" in self.response.headers.get("content-type", "")
        is_error = self.response.status_code >= ERROR
        try:
            # A piece may be decoded to nothing. So count the encoded bytes, too.
            while max(len(self._text), self.response.num_bytes_downloaded) < LONGEST_ERROR:
                chunk = await anext(self._remaining_chunks, None)
                if chunk is None:
                    break
                self.chunks.append(chunk)
                for part in self._decoder.feed(chunk):
                    self._text += part
                    if len(self._text) >= LONGEST_ERROR:
                        break
                if self._decoder.is_broken:
                    break
                if not is_error and self._has_content(is_stream):
                    return self
        except httpx.HTTPError as error:
            if self.chunks and not is_error:
                # Pass on the part of the answer that has arrived.
                return self
            is_late = isinstance(error, httpx.ReadTimeout)
            raise Unavailable(type(error).__name__, is_late=is_late) from error
        self.refusal = self._read_refusal(is_error=is_error, is_stream=is_stream)
        return self

    def _read_refusal(self, *, is_error: bool, is_stream: bool) -> Refusal | None:
        """Return the refusal of a too long prompt in a reply without content, or None.

        The reply is an error, a stream of events, or a whole response that may be a failure.
        """
        text, status = bytes(self._text), self.response.status_code
        has_events = is_stream and not text.lstrip().startswith((b"{", b"["))
        if is_error or (not has_events and _FAILED.search(text)):
            return Refusal.read(status, text)
        return _refusal_in(_END.split(text)) if has_events else None

    async def body(self) -> AsyncIterator[bytes]:
        """Yield all bytes of the reply, unchanged."""
        for chunk in self.chunks:
            yield chunk
        async for chunk in self._remaining_chunks:
            yield chunk

    def _has_content(self, is_stream: bool) -> bool:
        """Return whether the bytes read so far show that the reply is an answer.

        `is_stream` is true for a stream of events, in which one event must have content. Any other
        reply must be longer than an error would be, without an error's fields.
        """
        text = bytes(self._text)
        if not is_stream:
            # An error is short, and its fields come first.
            return not _FAILED.search(text) and len(text) > SHORTEST_ANSWER
        *events, _ = _END.split(text)  # The last event may be incomplete.
        return any(map(_is_content, events))


class UsageCapture:
    """A function that forwards a reply to the agent, and keeps a copy to read the usage from."""

    def __init__(self, send: Send) -> None:
        """Forward the reply through `send`."""
        self._send = send
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._body = bytearray()
        self._has_ended = False
        self._started_at = time.monotonic()
        self._first_byte_ms = self._reply_ms = 0

    async def __call__(self, message: Message) -> None:
        """Forward one ASGI message of the reply, and keep a copy."""
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], dict(message["headers"])
        else:
            self._has_ended = not message.get("more_body")
            if len(self._body) < MAX_REPLY_BYTES:
                self._body += message.get("body", b"")
        if message.get("body"):
            # Each message with a body sets the reply's time anew, so the last one remains. Only the
            # first one sets the time of the first byte.
            self._reply_ms = max(1, round(1000 * (time.monotonic() - self._started_at)))
            self._first_byte_ms = self._first_byte_ms or self._reply_ms
        await self._send(message)

    def reply(self) -> ProviderReply:
        """Return the provider's reply. Its times count from the creation of this object."""
        return ProviderReply(self._first_byte_ms, self._reply_ms, self._status, self._error_code())

    def _error_code(self) -> str:
        """Return the provider's code of a failure; empty if there is none.

        A reply with an accepting status may fail, too: it may break off or end with an error.
        """
        if not self.is_accepted:
            return read_error_code(self.plain_body)
        if not self._has_ended:
            return BROKEN_OFF
        return failure_code(self.plain_body, is_stream="event-stream" in self.content_type)

    @property
    def is_accepted(self) -> bool:
        """True if the provider accepted the request."""
        return 200 <= self._status < 300

    def usage(self) -> Usage | None:
        """Return the usage in the reply, or None if the reply is a refusal or has no usage."""
        return read_usage(self.content_type, self.plain_body) if self.is_accepted else None

    @property
    def content_type(self) -> str:
        """The value of the header `content-type`."""
        return self._headers.get(b"content-type", b"").decode("latin-1")

    @cached_property
    def plain_body(self) -> bytes:
        """The decompressed body; empty if it cannot be decompressed."""
        codings = self._headers.get(b"content-encoding", b"").decode("latin-1")
        return decode_body(codings, bytes(self._body), MAX_REPLY_BYTES)


async def pass_on(
    http: Connections,
    method: str,
    url: str,
    headers: Headers,
    content: Content,
    send: Send,
    added: Headers,
) -> None:
    """Forward a request to the provider, and the provider's reply to the agent.

    `added` are our own headers of the reply. Raise Unavailable if the provider gives no answer.
    """
    async with http.answer(method, url, headers, content) as response:
        await relay(ReplyStart(response), send, added)


async def relay(start: ReplyStart, send: Send, added: Headers) -> None:
    """Forward a provider's reply to the agent, with our own headers `added`.

    A part of the reply's body may have been read before. If the connection fails, log it and return
    without the end of the reply, so that the agent gets an incomplete reply, too.
    """
    status, headers = start.response.status_code, response_headers(start.response.headers.raw)
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *added]})
    try:
        async for chunk in start.body():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except httpx.HTTPError as error:
        log.warning("the provider's reply broke off (%s)", type(error).__name__)
        return
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def late_refusal(reply: bytes) -> Refusal | None:
    """Return the refusal of a too long prompt at the end of a stream, or None if there is none."""
    events = _END.split(reply[-LONGEST_ERROR:])[-LAST_EVENTS:]
    return _refusal_in([event for event in events if not _is_content(event)])


def failure_code(reply: bytes, *, is_stream: bool) -> str:
    """Return the code of the failure in an accepted reply; empty if the reply has no failure.

    Search the last events of a stream, or the whole of another reply that is short enough. For a
    failure without a code, return "error".
    """
    bodies = [reply] if len(reply) < LONGEST_ERROR else []
    if is_stream:
        bodies = [_data(event) for event in _END.split(reply[-LONGEST_ERROR:])[-LAST_EVENTS:]]
    failures = filter(None, map(_failure_in, map(_fields, bodies)))
    return next((error_code_of(failure) or "error" for failure in failures), "")


def _failure_in(fields: Json) -> Json | None:
    """Return the object with the error in a reply or an event, or None if there is no error.

    `fields` are those of the reply or event. The object is `fields` itself, its response, or one of
    its choices.
    """
    response, choices, status = (fields.get(name) for name in ("response", "choices", "base_resp"))
    parts = [fields, response, *(choices if isinstance(choices, list) else ())]
    objects = [part for part in parts if isinstance(part, dict)]
    if failed_objects := [part for part in objects if part.get("error")]:
        return failed_objects[0]
    # Without a field `error`, the reply's type, its status or a finish reason shows a failure.
    is_refusal = isinstance(status, dict) and status.get("status_code")  # MiniMax
    has_failed = "error" in (fields.get("type"), fields.get("object")) or is_refusal
    ends = any(part.get("finish_reason") == "error" for part in objects)
    return fields if has_failed or ends else None


def _refusal_in(events: Sequence[bytes]) -> Refusal | None:
    """Return the first refusal of a too long prompt in a stream's events, or None.

    Skip events that precede the model's first text. They may repeat the request, and its texts
    could look like a refusal.
    """
    texts = (_data(event) for event in events)
    refusals = (Refusal.read(OK, text) for text in texts if not _is_beginning(text))
    return next(filter(None, refusals), None)


def _data(event: bytes) -> bytes:
    """Return the data of an event; empty if it has none."""
    lines = [line[5:].strip() for line in event.splitlines() if line.startswith(b"data:")]
    return b"\n".join(lines)


def _fields(data: bytes) -> Json:
    """Return the fields of an event's data; empty if it is no JSON object.

    Gemini's data may be a list of objects. Return the fields of the first one.
    """
    try:
        fields = wire.loads(data)
    except ValueError:
        return {}
    fields = fields[0] if isinstance(fields, list) and fields else fields
    return fields if isinstance(fields, dict) else {}


def _is_beginning(data: bytes) -> bool:
    """Return whether an event's data belongs to the beginning of an answer, before any text."""
    return _fields(data).get("type") in _BEGINNINGS


def _is_content(event: bytes) -> bool:
    """Return whether an event shows that the reply is an answer.

    It does if it has text or a call of the model, or a normal finish reason.
    """
    data = _data(event)
    if not data or data == _END_MARKER or _ERROR_EVENT.search(event):
        return False
    fields = _fields(data)
    # Data that is no JSON object has an unknown format. It counts as text.
    return not fields or _has_text(fields)


def _has_text(fields: Json) -> bool:
    """Return whether an event's fields have text, a call or a normal finish reason.

    Of other events and in unknown formats, all fields count as text, unless they are an error's.
    """
    kind, choices = fields.get("type"), fields.get("choices")
    if fields.get("error") or fields.get("object") == "error" or kind in _BEGINNINGS | _FAILURES:
        return False
    # `parts` are the objects that may have text, a call or a finish reason.
    if isinstance(choices, list):  # chat completions
        objects = [choice for choice in choices if isinstance(choice, dict)]
        parts = [choice.get("delta") or choice.get("message") for choice in objects]
        parts += [{"finish_reason": choice.get("finish_reason")} for choice in objects]
    elif kind in ("content_block_start", "message_delta"):  # Messages
        parts = [fields.get("content_block") or fields.get("delta")]
    else:  # also the other events of Messages, such as `content_block_delta`
        return not fields.keys() & {"code", "detail", "base_resp"}
    return any(_is_text_part(part) for part in parts if isinstance(part, dict))


def _is_text_part(part: Json) -> bool:
    """Return whether a part has any value beside its role, its type and a failed finish reason."""
    values = [value for name, value in part.items() if name not in ("role", "type")]
    return any(value and value not in _FAILED_ENDS for value in values)
