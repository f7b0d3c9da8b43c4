"""Calls walkers with JSON and a valid token, and retries within a deadline if that may help.

A call is a flow: a generator that yields the next step and receives its outcome, like the auth
flows of httpx. A flow does no I/O; its driver does. Long because retries and the search for the
service and its token share one state.
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
    ContextRenderError,
    InvalidRequest,
    NoCredentials,
    ServerError,
    Unauthorized,
    Unreachable,
    error_of,
)
from contextrender_bridge.base.network_proxy import network_proxy_of
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.credentials import is_local, resolve_credentials

C = TypeVar("C", bound=Callable[..., Any])
T = TypeVar("T")

TIMEOUT = 60.0
"""Seconds that a call without a deadline may take."""
RETRIES = 2
FIRST_PAUSE = 0.05
NOT_REPEATABLE = frozenset({"import_session", "delete_session"})
TEMPORARY = frozenset({0, 502, 503, 504})
"""Statuses of failures that may be temporary; 0 means that there was no reply."""
MIN_SECONDS = 0.001
"""The time limit of a request whose deadline has passed; 0 would be no limit."""


@dataclass(frozen=True)
class Exchange:
    """A POST request. `seconds` is its time limit; None means the driver's own limit."""

    path: str
    fields: Mapping[str, Any] = field(repr=False)
    token: str | None = field(default=None, repr=False)
    seconds: float | None = None

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Return the request's body, which is the fields as JSON, and its headers.

        One header names the session, so that a load balancer can choose the process that has the
        session in memory. A service of several processes reads the header, too. Raise
        InvalidRequest if a value cannot be written as JSON.
        """
        try:
            body = wire.dumps(self.fields)
        except (TypeError, ValueError) as error:
            sentence = f"This cannot be sent as JSON: {error}."
            raise InvalidRequest(sentence, code="invalid_json", status=0) from error
        headers = {"content-type": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        if session := str(self.fields.get("session") or ""):
            headers["x-contextrender-session"] = quote(session, safe="", errors="replace")
        return body, headers


Step = Exchange | float
"""The next step of a flow; a number is a pause in seconds."""


class ServiceReply(NamedTuple):
    """The outcome of an exchange: the status, and the body's JSON value (None if not JSON)."""

    status: int = 0
    value: Any = None

    @classmethod
    def read(cls, status: int, body: bytes) -> ServiceReply:
        """Return the reply in an HTTP response."""
        try:
            return cls(status, wire.loads(body))
        except ValueError:
            return cls(status)


Outcome = ServiceReply | Unreachable | InvalidRequest
"""The outcome of a step: the reply (an empty one after a pause), or the error for the flow."""
Flow = Generator[Step, Outcome, T]


def with_signature_of(flow: Callable[..., Flow[Any]]) -> Callable[[C], C]:
    """Return a decorator that gives a client's method a flow's name, documentation and signature.

    `flow` is annotated to return `Flow[T]`. The method's return type becomes `T`.
    """
    # Annotations are texts (`from __future__ import annotations`).
    result = flow.__annotations__["return"].removeprefix("Flow[").removesuffix("]")

    def decorate(method: C) -> C:
        """Give `method` the flow's name, documentation and signature, and return it."""
        functools.update_wrapper(method, flow)
        method.__annotations__ = {**flow.__annotations__, "return": result}
        signature = inspect.signature(flow).replace(return_annotation=result)
        method.__signature__ = signature  # type: ignore[attr-defined]
        return method

    return decorate


def to_unreachable(url: str, step: Exchange, error: Exception) -> Unreachable:
    """Return the error for an exchange that failed without a reply.

    Its code is `late` if the exchange's own time limit was exceeded.
    """
    reason = str(error) or type(error).__name__
    is_late = step.seconds is not None and _is_timeout(error)
    failure = Unreachable(f"No answer from {url}: {reason}.", code="late" if is_late else None)
    failure.__cause__ = error
    return failure


def _is_timeout(error: Exception) -> bool:
    """Return whether an error of a client means that a time limit was exceeded."""
    # Before Python 3.11, `asyncio.TimeoutError` is another class. It is recognised by its name,
    # because the synchronous client does not import asyncio.
    has_name = type(error).__name__ == "TimeoutError"
    return has_name or isinstance(error, (TimeoutError, httpx.TimeoutException))


def network_options(url: str) -> dict[str, Any]:
    """Return the options of an httpx client for an address.

    They name the environment's network proxy and certificates, unless the address is unknown or
    this machine's, which is reached directly. httpx must not read the environment itself
    (`trust_env`), because it fails for some valid values of `NO_PROXY`.
    """
    options: dict[str, Any] = {"trust_env": False}
    if url and not is_local(url):
        options |= {"proxy": network_proxy_of(url), "verify": httpx.create_ssl_context()}
    return options


class Connection:
    """A connection to the service: its address and the user's token. The methods are flows."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retries: int = RETRIES,
    ) -> None:
        """Find the service's address and the token, as `ContextRender` describes.

        Raise NoCredentials if there is an address but no token for it. If no address is known yet,
        each call looks for the local service until there is one.
        """
        self._own_token = token
        self._finds_service = not (url or current_settings().url)
        self.url = self.token = ""
        try:
            credentials = resolve_credentials(url, self._own_token)
        except NoCredentials:
            if not self._finds_service:
                raise
        else:
            self.url, self.token = credentials.url, credentials.token
        self._retries = retries

    def call(
        self, walker: str, fields: Mapping[str, Any], token: str | None = None, stop_at: float = inf
    ) -> Flow[Json]:
        """Call a walker with these fields, and return its report.

        Try again after a temporary failure, with growing pauses, while retries and time are left.
        Fields that are None are not sent. `token` replaces the connection's token for this call.
        `stop_at` is the deadline on the clock of `time.monotonic`. Raise NoCredentials if no
        service is known, and the error of the last attempt if that fails.
        """
        if not self.url:
            self._find_service()
        set_fields = {name: value for name, value in fields.items() if value is not None}
        pause = FIRST_PAUSE
        retries_left = 0 if walker in NOT_REPEATABLE else self._retries
        while True:
            try:
                return (yield from self._report(f"/walker/{walker}", set_fields, token, stop_at))
            except (Unreachable, ServerError) as error:
                if isinstance(error, Unreachable) and self._has_moved():
                    continue  # Try at the new address, without a pause.
                is_late = time.monotonic() + pause > stop_at
                if is_late or not retries_left or error.status not in TEMPORARY:
                    raise
            retries_left -= 1
            yield pause
            pause *= 2

    def _report(self, path: str, fields: Json, token: str | None, stop_at: float) -> Flow[Json]:
        """Send a request to a walker once, and return the first report in the reply.

        `token` is the token for this call, None for the client's own. If the service refuses the
        client's own token, and the local service has written a new one to its file, send the
        request again with the new token.
        """
        current_token = token or self.token
        try:
            reply = yield from self._post(path, fields, current_token, stop_at)
        except Unauthorized:
            if token is not None:
                raise
            if not self._read_newer_token(current_token):
                raise Unauthorized(self._about_token(current_token)) from None
            reply = yield from self._post(path, fields, self.token, stop_at)
        if not reply.get("reports"):
            raise error_of(200, reply, self.url)
        return cast(Json, reply["reports"][0])

    def _find_service(self) -> None:
        """Read the local service's address and token. Raise NoCredentials if none is known."""
        credentials = resolve_credentials(None, self._own_token)
        self.url, self.token = credentials.url, credentials.token

    def _has_moved(self) -> bool:
        """Read the local service's address again, and return whether it has changed."""
        previous_url = self.url
        if self._finds_service:
            with suppress(NoCredentials):
                self._find_service()
        return self.url != previous_url

    def _read_newer_token(self, refused_token: str) -> bool:
        """Read the local service's token again, unless another call has done so already.

        Return whether `self.token` is now another token than the refused one.
        """
        if self.token == refused_token and not self._own_token:
            try:
                self.token = resolve_credentials(self.url, None).token
            except NoCredentials:
                return False
        return self.token != refused_token

    def _about_token(self, token: str) -> str:
        """Return a sentence about a refused token: where it comes from, and how to get another."""
        if self._own_token:
            source = "The token given to the client"
        elif token == current_settings().token:
            source = "The token in CONTEXTRENDER_TOKEN"
        else:
            return f"The local server's token is not valid at {self.url}: restart the server."
        command = "`contextrender user token NAME`"
        return f"{source} is not valid at {self.url}: {command}, at the server, makes another."

    def _post(self, path: str, fields: Json, token: str | None, stop_at: float) -> Flow[Json]:
        """Send a POST request, and return the object in the reply.

        Raise a ContextRenderError if the reply is an error or has no object.
        """
        # A time limit of 0 or less would be no limit.
        seconds = None if stop_at == inf else max(MIN_SECONDS, stop_at - time.monotonic())
        outcome = yield Exchange(path, fields, token, seconds)
        if isinstance(outcome, ContextRenderError):
            raise outcome
        status, value = outcome
        if not (200 <= status < 300 and isinstance(value, dict)):
            raise error_of(status, value, self.url)
        return value
