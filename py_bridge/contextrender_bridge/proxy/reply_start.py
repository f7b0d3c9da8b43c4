"""The beginning of a provider's reply, which is read until it is a refusal or an answer.

Some providers answer 200 and refuse a long prompt within the reply: as the first event of a stream,
or as a failed response. So a reply is sent to the agent only from its first content on.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx

from contextrender_bridge.base.contents import Decoder
from contextrender_bridge.proxy.connections import Unavailable
from contextrender_bridge.proxy.refusals import Refusal

LONGEST_ERROR = 64 * 1024
"""The largest error in bytes: a longer reply is an answer."""
ERROR = 400

_EMPTY = re.compile(
    rb'"type" ?: ?"(?:response\.(?:created|in_progress|queued)|message_start|ping)"'
    rb'|^\s*$|^\s*:|"delta" ?: ?\{\s*("role" ?: ?"assistant",? ?)?("content" ?: ?(""|null))?\s*\}'
)
"""An event before the model's first text."""
_FAILED = re.compile(
    rb'"type" ?: ?"(?:error|response\.failed|response\.incomplete)"|"error" ?: ?[{"]|event: ?error'
    rb'|"status" ?: ?"failed"'
)
_END = re.compile(rb"\r?\n\r?\n|\r\r")


class ReplyStart:
    """A reply whose first bytes have been read; `refusal` is set if the prompt is too long."""

    def __init__(self, response: httpx.Response) -> None:
        """Read nothing yet: await `read` before any other method."""
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
        """Read until the reply is known to be an answer or a refusal; raise Unavailable."""
        kind = self.response.headers.get("content-type", "")
        is_error = self.response.status_code >= ERROR
        try:
            while len(self._text) < LONGEST_ERROR:
                chunk = await anext(self._remaining_chunks, None)
                if chunk is None:
                    break
                self.chunks.append(chunk)
                self._text += self._decoder.feed(chunk)
                if not is_error and (not self._text or self._has_content("event-stream" in kind)):
                    return self
        except httpx.HTTPError as error:
            if self.chunks and not is_error:
                return self
            late = isinstance(error, httpx.ReadTimeout)
            raise Unavailable(type(error).__name__, is_late=late) from error
        text = bytes(self._text)
        if is_error or _FAILED.search(text):
            self.refusal = Refusal.read(self.response.status_code, text)
        return self

    async def body(self) -> AsyncIterator[bytes]:
        """Yield all bytes of the reply, unchanged."""
        for chunk in self.chunks:
            yield chunk
        async for chunk in self._remaining_chunks:
            yield chunk

    def _has_content(self, streams: bool) -> bool:
        """Return whether the bytes that were read have text of the model, and no error."""
        text = bytes(self._text)
        if not streams:
            # An error is short, and its fields come first.
            return not _FAILED.search(text) and len(text) > LONGEST_ERROR // 64
        *events, _ = _END.split(text)
        return any(not _EMPTY.search(event) and not _FAILED.search(event) for event in events)
