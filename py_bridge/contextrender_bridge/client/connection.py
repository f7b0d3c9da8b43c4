"""Calls of walkers: as JSON, with a good token, again where that helps, within a deadline.

They are flows, generators of steps, as httpx has for auth: a flow yields what is to be done next
and gets back what came of it; nothing in it is I/O.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import quote

import httpx

from contextrender_bridge.base import wire
from contextrender_bridge.base.errors import (
    InvalidRequest,
    NoCredentials,
    ServerError,
    Unauthorized,
    Unreachable,
    error_of,
)
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.credentials import resolve_credentials

C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")

TIMEOUT = 60.0
"""Seconds that a call may take where it has no deadline."""
RETRIES = 2
FIRST_PAUSE = 0.05
NOT_REPEATABLE = frozenset({"import_session", "delete_session"})
PASSING = frozenset({0, 502, 503, 504})
"""Statuses of failures that may be over at the next try."""


@dataclass(frozen=True)
class Exchange:
    """What to POST. `seconds`: the longest it may take, None for the driver's own limit."""

    path: str
    fields: Mapping[str, Any] = field(repr=False)
    token: str | None = field(default=None, repr=False)
    seconds: float | None = None

    @property
    def body(self) -> bytes:
        """The fields as JSON. Raises InvalidRequest."""
        try:
            return wire.dumps(self.fields)
        except (TypeError, ValueError) as error:
            sentence = f"This cannot be sent as JSON: {error}."
            raise InvalidRequest(sentence, code="invalid_json", status=0) from error

    @property
    def headers(self) -> dict[str, str]:
        """The session is for a balancer, and for a service of several processes: which has it in
        memory.
        """
        headers = {"content-type": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        if session := str(self.fields.get("session") or ""):
            headers["x-contextrender-session"] = quote(session, safe="", errors="replace")
        return headers


Step = Exchange | float
"""What is to be done next; a number is a pause in seconds."""


class Answer(NamedTuple):
    """What an exchange ended in: the value of its body, None where that is no JSON."""

    status: int = 0
    value: Any = None

    @classmethod
    def read(cls, status: int, body: bytes) -> Answer:
        """An answer that came as text."""
        try:
            return cls(status, wire.loads(body))
        except ValueError:
            return cls(status)


Flow = Generator[Step, Answer, T]


def like(flow: Callable[..., Flow[Any]]) -> Callable[[C], C]:
    """Gives a client's method the name, documentation and signature of the flow it drives."""
    result = flow.__annotations__["return"].removeprefix("Flow[").removesuffix("]")

    def decorate(method: C) -> C:
        functools.update_wrapper(method, flow)
        method.__annotations__ = {**flow.__annotations__, "return": result}
        signature = inspect.signature(flow).replace(return_annotation=result)
        method.__signature__ = signature  # type: ignore[attr-defined]
        return method

    return decorate


def lost(url: str, step: Exchange, error: Exception) -> Unreachable:
    """What a failure to get an answer is: `late` where it had a deadline, which has passed."""
    reason = str(error) or type(error).__name__
    late = step.seconds is not None and _is_timeout(error)
    failure = Unreachable(f"No answer from {url}: {reason}.", code="late" if late else None)
    failure.__cause__ = error
    return failure


def _is_timeout(error: Exception) -> bool:
    # Before Python 3.11 asyncio's is a class of its own; to name it would import all of asyncio.
    late = type(error).__name__ == "TimeoutError"
    return late or isinstance(error, (TimeoutError, httpx.TimeoutException))


class Connection:
    """Where the service is and who asks it; its methods are flows."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retries: int = RETRIES,
    ) -> None:
        """As the clients have it. Raises NoCredentials for an address without a token.

        Where no address is known either, the local service is looked for at every call.
        """
        self._own_token = token
        self._finds_service = not (url or current_settings().url)
        self.url = self.token = ""
        try:
            known = resolve_credentials(url, self._own_token)
        except NoCredentials:
            if not self._finds_service:
                raise
        else:
            self.url, self.token = known.url, known.token
        self._retries = retries

    def call(
        self, walker: str, fields: Mapping[str, Any], token: str | None = None, until: float = inf
    ) -> Flow[Json]:
        """A walker's report; fields that are None are left to the service. Raises NoCredentials.

        `token` is that of another user for this call; `until` is on the clock of `time.monotonic`.
        """
        if not self.url:
            self._find_service()
        told = {name: value for name, value in fields.items() if value is not None}
        pause = FIRST_PAUSE
        left = 0 if walker in NOT_REPEATABLE else self._retries
        while True:
            try:
                return (yield from self._report(f"/walker/{walker}", told, token, until))
            except (Unreachable, ServerError) as error:
                if isinstance(error, Unreachable) and self._has_moved():
                    continue
                late = time.monotonic() + pause > until
                if late or not left or error.status not in PASSING:
                    raise
            left -= 1
            yield pause
            pause *= 2

    def _report(self, path: str, fields: Json, token: str | None, until: float) -> Flow[Json]:
        """The report; with the service's next token if the one found is no longer good."""
        used = token or self.token
        try:
            answer = yield from self._post(path, fields, used, until)
        except Unauthorized:
            if token is not None or not self._refresh(used):
                raise
            answer = yield from self._post(path, fields, self.token, until)
        if not answer.get("reports"):
            raise error_of(200, answer)
        return cast(Json, answer["reports"][0])

    def _find_service(self) -> None:
        """Takes the address and the token of the local service. Raises NoCredentials."""
        known = resolve_credentials(None, self._own_token)
        self.url, self.token = known.url, known.token

    def _has_moved(self) -> bool:
        """Whether the local service is at another address by now: it was started again."""
        before = self.url
        if self._finds_service:
            with suppress(NoCredentials):
                self._find_service()
        return self.url != before

    def _refresh(self, used: str) -> bool:
        """Whether there is another token to try; another call may have found it already."""
        if self.token == used and not self._own_token:
            try:
                self.token = resolve_credentials(self.url, None).token
            except NoCredentials:
                return False
        return self.token != used

    def _post(self, path: str, fields: Json, token: str | None, until: float) -> Flow[Json]:
        """The object that answers. Raises a ContextRenderError."""
        seconds = None if until == inf else max(0.001, until - time.monotonic())
        status, value = yield Exchange(path, fields, token, seconds)
        if not (200 <= status < 300 and isinstance(value, dict)):
            raise error_of(status, value)
        return value
