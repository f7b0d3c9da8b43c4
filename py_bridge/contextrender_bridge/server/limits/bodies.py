"""Limits on request bodies: the size of each and of all together, a user's too, and their time."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.server.logs import Asked
from starlette.types import Message, Receive, Scope

SILENCE_SECONDS = 30.0
"""How long a body may pause."""
TOGETHER = 4
"""All bodies that are held at once have room for so many of the largest, a user's for half."""


class Bodies:
    """The bodies of the requests that one process answers; `small` limits those of some paths."""

    def __init__(
        self, settings: Settings, small: Mapping[str, int], silence: float = SILENCE_SECONDS
    ) -> None:
        """None is held. A body's memory is taken until its request is answered."""
        self._most = settings.max_body_mb * 2**20
        self._small = small
        self._silence = silence
        self._seconds = settings.body_seconds
        self._held: Counter[str] = Counter()

    def refusal(self, scope: Scope) -> InvalidRequest | None:
        """Why a request is refused unread: its body is announced to be too large."""
        most = self._most_of(scope)
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        return _too_large(most) if announced.isdigit() and int(announced) > most else None

    @contextmanager
    def reading(self, scope: Scope, receive: Receive, asked: Asked) -> Iterator[Receive]:
        """A request's `receive`, which raises InvalidRequest where a limit is passed."""
        body = _Body(receive, self._most_of(scope), self._silence, self._seconds)
        taken: Counter[str] = Counter()
        stranger = (scope.get("client") or ("",))[0]

        async def counted() -> Message:
            message = await body()
            if size := len(message.get("body", b"")):
                user = asked.user or f"address {stranger}"
                taken[user] += size
                self._held[user] += size
                self._check_room(user)
            return message

        try:
            yield counted
        finally:
            self._held -= taken

    def _most_of(self, scope: Scope) -> int:
        return self._small.get(scope["path"], self._most)

    def _check_room(self, user: str) -> None:
        room = TOGETHER * self._most
        if self._held[user] > room / 2 or self._held.total() > room:
            sentence = "Too much is being sent at once. Try again in a moment."
            raise InvalidRequest(sentence, code="too_much_at_once", status=503, retry_after=1)


class _Body:
    """A request's `receive`, under a limit of size and of time until the body is whole."""

    def __init__(self, receive: Receive, most: int, silence: float, seconds: float) -> None:
        self._receive = receive
        self._most = most
        self._silence = silence
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._received = 0
        self._whole = False

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()
        message = await self._in_time()
        self._received += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._received > self._most:
            raise _too_large(self._most)
        return message

    async def _in_time(self) -> Message:
        left = self._deadline - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(min(self._silence, max(left, 0))):
                return await self._receive()
        except TimeoutError:
            sentence = "The body did not arrive in time."
            raise InvalidRequest(sentence, code="too_slow", status=408) from None


def _too_large(most: int) -> InvalidRequest:
    size = f"{most / 2**20:g} MB" if most >= 2**20 else f"{most} bytes"
    return InvalidRequest(f"A body may have up to {size}.", code="body_too_large", status=413)
