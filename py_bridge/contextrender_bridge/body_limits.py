"""Limits of the bodies that one process holds: of each, of each user's, and of all together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from contextrender_bridge.asgi import Message, Receive, Scope
from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.settings import Settings

SILENCE_SECONDS: Final = 30.0
"""How long a body may pause."""
TOGETHER: Final = 4
"""All bodies together have room for so many of the largest, one user's for half of that."""


class BodyLimits:
    """The bodies that are held now. A body's room is taken until its request is answered."""

    def __init__(
        self,
        settings: Settings,
        small: Mapping[str, int] = {},
        silence: float = SILENCE_SECONDS,
        user: Callable[[], str] = str,
    ) -> None:
        """Limit bodies as the settings say, and those of `small`'s paths to fewer bytes.

        `user` returns whose request is being read, or nothing if that is not known.
        """
        self.max_bytes = settings.max_body_mb * 2**20
        self._small = small
        self._silence = silence
        self._seconds = settings.body_timeout
        self._user = user
        self._held_bytes: Counter[str] = Counter()

    @contextmanager
    def reading(self, scope: Scope, receive: Receive) -> Iterator[Receive]:
        """Return a request's `receive`, which raises InvalidRequest when a limit is passed.

        Raise it at once if the body is announced to be too large.
        """
        max_bytes = self._small.get(scope["path"], self.max_bytes)
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > max_bytes:
            raise too_large(max_bytes)
        deadline = asyncio.get_running_loop().time() + self._seconds
        address = (scope.get("client") or ("",))[0]
        read_bytes: Counter[str] = Counter()
        is_whole = False

        async def count() -> Message:
            nonlocal is_whole
            if is_whole:
                return await receive()
            message = await self._in_time(receive, deadline)
            is_whole = not message.get("more_body", False)
            if size := len(message.get("body", b"")):
                user = self._user() or f"address {address}"
                read_bytes[user] += size
                self._held_bytes[user] += size
                if read_bytes.total() > max_bytes:
                    raise too_large(max_bytes)
                self._check_room(user)
            return message

        try:
            yield count
        finally:
            self._held_bytes -= read_bytes

    async def _in_time(self, receive: Receive, deadline: float) -> Message:
        seconds = deadline - asyncio.get_running_loop().time()
        try:
            return await asyncio.wait_for(receive(), min(self._silence, max(seconds, 0)))
        except TimeoutError:
            sentence = "The body did not arrive in time."
            raise InvalidRequest(sentence, code="request_timeout", status=408) from None

    def _check_room(self, user: str) -> None:
        room = TOGETHER * self.max_bytes
        if self._held_bytes[user] > room / 2 or self._held_bytes.total() > room:
            sentence = "Too much is being sent at once. Try again in a moment."
            raise InvalidRequest(
                sentence, code="too_many_bytes_in_flight", status=503, retry_after=1
            )


def too_large(max_bytes: int) -> InvalidRequest:
    """Return the error of a body with more than `most` bytes."""
    size = f"{max_bytes / 2**20:g} MB" if max_bytes >= 2**20 else f"{max_bytes} bytes"
    return InvalidRequest(f"A body may have up to {size}.", code="body_too_large", status=413)
