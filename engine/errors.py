"""What can go wrong, as one tree.

ContextRenderError
├── InvalidRequest      a field or message is not what the API takes (422)
├── NotFound            no such session, result or turn for this caller (404)
├── Conflict            what should be made exists already (409)
├── HistoryDiverged     the caller's prefix is not what is recorded (409)
└── Busy                another writer holds the session for too long (503)
"""

from typing import ClassVar


class ContextRenderError(Exception):
    """An error the caller can act on: `code` for programs, `message` for people.

    `details` holds further plain values for the reply. None of them may quote message contents.
    """

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class InvalidRequest(ContextRenderError):
    """A field or message is not what the API takes."""

    code = "invalid_request"
    status = 422


class NotFound(ContextRenderError):
    """No such session, result or turn for this caller."""

    code = "not_found"
    status = 404


class HistoryDiverged(ContextRenderError):
    """The caller's offset and prefix do not match what is recorded; send the whole history."""

    code = "history_diverged"
    status = 409


class Busy(ContextRenderError):
    """Another writer held the session for too long; try again."""

    code = "busy"
    status = 503


class Conflict(ContextRenderError):
    """What should be made exists already."""

    code = "conflict"
    status = 409
