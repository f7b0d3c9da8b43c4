"""What a call can end in, as one tree.

ContextRenderError
├── Unreachable         no answer: no server there, or none in time
├── Unauthorized        the token is missing or not good (401)
├── InvalidRequest      the request is not what the API takes (other 4xx)
├── NotFound            no such session, result or turn of this caller (404)
├── Conflict            what should be made exists already, or a write lost a race (409)
│   └── HistoryDiverged the prefix is not what is recorded (409 history_diverged)
└── ServerError         the server failed, or is too busy (5xx)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ContextRenderError(Exception):
    """`code` is for programs, `message` for people, `status` the HTTP status (0: no answer).

    `details` holds what else the server said, such as `recorded` for a diverged history.
    """

    def __init__(
        self, code: str, status: int, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        """Keeps the parts; the text of the error is the message."""
        super().__init__(message)
        self.code = code
        self.status = status
        self.message = message
        self.details = dict(details or {})

    def __reduce__(self) -> tuple[Any, ...]:
        """Survives pickling, for workers in other processes."""
        return type(self), (self.code, self.status, self.message, self.details)


class Unreachable(ContextRenderError):
    """No answer: no server there, or none in time. Whether it did the work is unknown."""


class Unauthorized(ContextRenderError):
    """The token is missing or not good."""


class InvalidRequest(ContextRenderError):
    """The request is not what the API takes."""


class NotFound(ContextRenderError):
    """No such session, result or turn of this caller."""


class Conflict(ContextRenderError):
    """What should be made exists already, or a write lost a race."""


class HistoryDiverged(Conflict):
    """The prefix is not what is recorded; the client sends all messages again by itself."""


class ServerError(ContextRenderError):
    """The server failed, or is too busy."""


def error_of(status: int, body: object) -> ContextRenderError:
    """The error of a reply that is not a success."""
    error = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping):
        sentence = f"The answer (HTTP {status}) is not ContextRender's: is the address right?"
        return ServerError("unexpected_reply", status, sentence)
    code, message = str(error.get("code")), str(error.get("message"))
    details = {name: value for name, value in error.items() if name not in ("code", "message")}
    return _kind(status, code)(code, status, message, details)


def _kind(status: int, code: str) -> type[ContextRenderError]:
    if code == "history_diverged":
        return HistoryDiverged
    if status >= 500:
        return ServerError
    return {401: Unauthorized, 404: NotFound, 409: Conflict}.get(status, InvalidRequest)
