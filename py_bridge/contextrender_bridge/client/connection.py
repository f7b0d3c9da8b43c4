"""Calls of walkers: as JSON, with a good token, again where that helps, within a deadline."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from typing import Any, cast

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
from contextrender_bridge.client.flow import Answer, Exchange, Flow, Wait

RETRIES = 2
FIRST_PAUSE = 0.05
NO_TOKEN = "none yet"
NOT_REPEATABLE = frozenset({"import_session", "delete_session"})
PASSING = frozenset({0, 502, 503, 504})
"""Statuses of failures that may be over at the next try."""


class Connection:
    """Where the service is and who asks it; its methods are flows."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retries: int = RETRIES,
        login: tuple[str, str] | None = None,
    ) -> None:
        """As the clients have it. Raises NoCredentials for an address without a token.

        Where no address is known either, the local service is looked for at every call.
        """
        self._own_token = token or (login and NO_TOKEN)
        self._finds_service = not (url or current_settings().url)
        self.url = self.token = ""
        try:
            known = resolve_credentials(url, self._own_token)
        except NoCredentials:
            if not self._finds_service:
                raise
        else:
            self.url, self.token = known.url, known.token
        self._token_given = bool(token) or login is not None
        self._login = login
        self._retries = retries

    def call(
        self, walker: str, fields: Mapping[str, Any], token: str | None = None, until: float = inf
    ) -> Flow[Json]:
        """A walker's report; fields that are None are left to the service. Raises NoCredentials.

        `token` is that of another user for this call; `until` is on the clock of `time.monotonic`.
        """
        if not self.url:
            self._find_service()
        body = _encoded({name: value for name, value in fields.items() if value is not None})
        session = str(fields.get("session") or "")
        pause = FIRST_PAUSE
        left = 0 if walker in NOT_REPEATABLE else self._retries
        while True:
            try:
                return (yield from self._report(f"/walker/{walker}", body, token, until, session))
            except (Unreachable, ServerError) as error:
                if isinstance(error, Unreachable) and self._has_moved():
                    continue
                late = time.monotonic() + pause > until
                if late or not left or error.status not in PASSING:
                    raise
            left -= 1
            yield Wait(pause)
            pause *= 2

    def _report(
        self, path: str, body: bytes, token: str | None, until: float, session: str
    ) -> Flow[Json]:
        """The report; with a fresh token if the client's own is no longer good."""
        used = token or self.token
        try:
            answer = yield from self._post(path, body, used, until, session)
        except Unauthorized:
            if token is not None or not (yield from self._refresh(used, until)):
                raise
            answer = yield from self._post(path, body, self.token, until, session)
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

    def _refresh(self, used: str, until: float) -> Flow[bool]:
        """Whether there is another token to try; another call may have got it already."""
        if self.token == used and self._login is not None:
            name, password = self._login
            body = _encoded({"username": name, "password": password})
            self.token = str((yield from self._post("/user/login", body, None, until))["token"])
        elif self.token == used and not self._token_given:
            try:
                self.token = resolve_credentials(self.url, None).token
            except NoCredentials:
                return False
        return self.token != used

    def _post(
        self, path: str, body: bytes, token: str | None, until: float, session: str = ""
    ) -> Flow[Json]:
        """The JSON object that answers. Raises a ContextRenderError."""
        seconds = None if until == inf else max(0.001, until - time.monotonic())
        return _decoded((yield Exchange(path, body, token, seconds, session)))


def _encoded(fields: Mapping[str, Any]) -> bytes:
    try:
        return wire.dumps(fields)
    except (TypeError, ValueError) as error:
        sentence = f"This cannot be sent as JSON: {error}."
        raise InvalidRequest(sentence, code="invalid_json", status=0) from error


def _decoded(answer: Answer) -> Json:
    try:
        body = wire.loads(answer.body)
    except ValueError:
        body = None
    if not (200 <= answer.status < 300 and isinstance(body, dict)):
        raise error_of(answer.status, body)
    return body
