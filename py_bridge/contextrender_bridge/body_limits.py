"""Limits of request bodies in one process: of each body, of each user's, and of all together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from contextrender_bridge.asgi import Message, Receive, Scope
from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.settings import Settings

PAUSE_SECONDS: Final = 30.0
"""The maximum pause of a client that sends a body, in seconds."""
MAX_BODIES: Final = 4
"""The limit of all bodies together, as a multiple of the largest body. One user has half of it."""


class BodyLimits:
    """The limits of the bodies in memory. A body counts until its request is answered."""

    def __init__(
        self,
        settings: Settings,
        small: Mapping[str, int] = {},
        max_pause: float = PAUSE_SECONDS,
        user: Callable[[], str] = lambda: "",
    ) -> None:
        """Limit bodies as the settings say.

        `small` has lower limits, in bytes, for the paths that it names. `user` returns the user
        whose request is being read, empty if the user is not known yet.
        """
        self.max_bytes = settings.max_body_mb * 2**20
        self._small = small
        self._max_pause = max_pause
        self._body_seconds = settings.body_timeout
        self._user = user
        self._bytes_by_user: Counter[str] = Counter()

    @contextmanager
    def reading(self, scope: Scope, receive: Receive) -> Iterator[Receive]:
        """Yield a `receive` that counts the body's bytes and raises InvalidRequest above a limit.

        At the end of the block, the body's bytes no longer count. If the Content-Length is too
        large, raise InvalidRequest at once.
        """
        max_bytes = self._small.get(scope["path"], self.max_bytes)
        content_length = dict(scope["headers"]).get(b"content-length", b"0")
        if content_length.isdigit() and int(content_length) > max_bytes:
            raise too_large(max_bytes)
        # A request may begin before its user is known, so count its bytes for each user or, without
        # one, for the client's address.
        deadline = asyncio.get_running_loop().time() + self._body_seconds
        address = (scope.get("client") or ("",))[0]
        request_bytes: Counter[str] = Counter()
        is_complete = False

        async def receive_counted() -> Message:
            """Return the next message, and count its bytes for the request and its user.

            Raise InvalidRequest if the request's body, or all bodies in memory, are too large.
            """
            nonlocal is_complete
            if is_complete:
                return await receive()  # After the body, only a disconnection follows.
            message = await self._receive_in_time(receive, deadline)
            is_complete = not message.get("more_body", False)
            if size := len(message.get("body", b"")):
                user = self._user() or f"address {address}"
                request_bytes[user] += size
                self._bytes_by_user[user] += size
                if request_bytes.total() > max_bytes:
                    raise too_large(max_bytes)
                self._check_total(user)
            return message

        try:
            yield receive_counted
        finally:
            self._bytes_by_user -= request_bytes

    async def _receive_in_time(self, receive: Receive, deadline: float) -> Message:
        """Return the next message. Raise InvalidRequest (408) if it does not arrive in time.

        It must arrive within the maximum pause and before the body's `deadline`.
        """
        remaining_seconds = max(deadline - asyncio.get_running_loop().time(), 0)
        try:
            return await asyncio.wait_for(receive(), min(self._max_pause, remaining_seconds))
        except TimeoutError:
            sentence = "The body did not arrive in time."
            raise InvalidRequest(sentence, code="request_timeout", status=408) from None

    def _check_total(self, user: str) -> None:
        """Raise InvalidRequest (503) if all bodies in memory, or this user's, exceed their limit.

        One user may have half of the limit for all users.
        """
        max_total = MAX_BODIES * self.max_bytes
        user_bytes, total = self._bytes_by_user[user], self._bytes_by_user.total()
        if user_bytes > max_total / 2 or total > max_total:
            sentence = "Too much is being sent at once. Try again in a moment."
            raise InvalidRequest(
                sentence, code="too_many_bytes_in_flight", status=503, retry_after=1
            )


def too_large(max_bytes: int) -> InvalidRequest:
    """Return the error of a body with more than `max_bytes`."""
    size = f"{max_bytes / 2**20:g} MB" if max_bytes >= 2**20 else f"{max_bytes} bytes"
    return InvalidRequest(f"A body may have up to {size}.", code="body_too_large", status=413)
