"""The beginning of a provider's reply, read until it is known whether it is a refusal.

Some providers answer 200 and say within the reply that the prompt is too long: as the first event
of a stream, or as a failed response. Such a reply is not sent on before its first content.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx

from contextrender_bridge.base.contents import Decoder
from contextrender_bridge.proxy.connections import Unavailable
from contextrender_bridge.proxy.refusals import Refusal

MOST = 64 * 1024
"""Bytes of a reply that may be an error: a longer one is the model's."""
ERROR = 400

_EMPTY = re.compile(
    rb'"type" ?: ?"(?:response\.(?:created|in_progress|queued)|message_start|ping)"'
    rb'|^\s*$|^\s*:|"delta" ?: ?\{\s*("role" ?: ?"assistant",? ?)?("content" ?: ?(""|null))?\s*\}'
)
"""An event before the model's first words."""
_FAILED = re.compile(
    rb'"type" ?: ?"(?:error|response\.failed|response\.incomplete)"|"error" ?: ?[{"]|event: ?error'
    rb'|"status" ?: ?"failed"'
)
_END = re.compile(rb"\r?\n\r?\n|\r\r")


class ReplyStart:
    """A reply whose first bytes have been read; `refusal` says that the prompt is too long."""

    def __init__(self, response: httpx.Response) -> None:
        """`read` must be awaited before anything else."""
        self.response = response
        self.chunks: list[bytes] = []
        self.refusal: Refusal | None = None
        self._rest = response.aiter_raw()
        self._decoder = Decoder(response.headers.get("content-encoding", ""))
        self._text = bytearray()

    @property
    def is_refused(self) -> bool:
        """Whether the provider refused the request, for whatever reason."""
        return self.refusal is not None or self.response.status_code >= ERROR

    async def read(self) -> ReplyStart:
        """Read until the reply is known to be the model's, or a refusal. Raises Unavailable."""
        kind = self.response.headers.get("content-type", "")
        is_error = self.response.status_code >= ERROR
        try:
            while len(self._text) < MOST:
                chunk = await anext(self._rest, None)
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
        """Yield all bytes of the reply as they came."""
        for chunk in self.chunks:
            yield chunk
        async for chunk in self._rest:
            yield chunk

    def _has_content(self, streams: bool) -> bool:
        """Return whether what was read is the model's: not an error, and not only a beginning."""
        text = bytes(self._text)
        if not streams:
            # An error is short, and its fields come first.
            return not _FAILED.search(text) and len(text) > MOST // 64
        *whole, _ = _END.split(text)
        return any(not _EMPTY.search(event) and not _FAILED.search(event) for event in whole)
