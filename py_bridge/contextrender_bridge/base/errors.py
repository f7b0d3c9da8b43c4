"""The errors of the engine, the server and the clients as one tree, and the error of a command.

Numbers in parentheses are HTTP statuses; 0 means that no answer was received.

ContextRenderError
├── NoCredentials       no address or no token is known (0)
├── Unreachable         no answer: no server there, or none in time (0)
├── Unauthorized        the token is missing or invalid (401)
├── InvalidRequest      the API does not accept the request (422; other 4xx)
│   └── Damaged         the store has lost a part of the session (422)
├── NotFound            no such session, result or turn of this caller (404)
├── Conflict            the name is taken, or another write came first (409)
│   ├── HistoryDiverged the prefix differs from the recorded history (409)
│   └── OtherConversation  the messages differ from the recorded ones (409)
└── ServerError         the server failed (500; other 5xx)
    ├── Busy            another request locks the session for too long (503)
    └── NotReady        the server cannot serve now: its store or disk (503)
CommandError            a command must stop; the message is for its user
"""

from collections.abc import Mapping


class ContextRenderError(Exception):
    """A failed request. Programs read its `code`, people its `message`.

    `status` is the HTTP status, 0 if no answer was received. `details` are further plain values,
    such as `recorded` for a diverged history. No detail may quote message contents. The client
    raises the class that the service raised.
    """

    code: str = "error"
    status: int = 500

    def __init__(
        self, message: str, *, code: str | None = None, status: int | None = None, **details: object
    ) -> None:
        """Take the class's code and status, unless others are given."""
        super().__init__(message)
        self.message = message
        self.code = self.code if code is None else code
        self.status = self.status if status is None else status
        self.details = details


class NoCredentials(ContextRenderError):
    """No address or no token of the service was found. The message says how to provide them."""

    code, status = "no_credentials", 0


class Unreachable(ContextRenderError):
    """No server answered, or none in time. The server may have carried out the request."""

    code, status = "unreachable", 0


class Unauthorized(ContextRenderError):
    """The token is missing or invalid."""

    code, status = "unauthorized", 401


class InvalidRequest(ContextRenderError):
    """The API does not accept the request."""

    code, status = "invalid_request", 422


class Damaged(InvalidRequest):
    """The store has lost the requested data, or cannot read it. The message says what to do."""

    code = "corrupted"


class NotFound(ContextRenderError):
    """This caller has no such session, result or turn."""

    code, status = "not_found", 404


class Conflict(ContextRenderError):
    """The name is taken, or another write came first."""

    code, status = "conflict", 409


class HistoryDiverged(Conflict):
    """The caller's prefix differs from the recorded history. Clients then send all messages."""

    code = "history_diverged"


class OtherConversation(Conflict):
    """The messages differ from the recorded ones, and the caller did not ask for a new branch."""

    code = "other_conversation"


class ServerError(ContextRenderError):
    """The server failed."""

    code, status = "internal", 500


class Busy(ServerError):
    """Another request has locked the session for too long. The caller may try again."""

    code, status = "busy", 503


class NotReady(ServerError):
    """The server cannot serve now, but recovers by itself. The message gives the reason."""

    code, status = "not_ready", 503


class CommandError(Exception):
    """An error that ends a command. Its message is for the user; `status` is the exit code."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


class NotWritable(CommandError):
    """The data folder exists but cannot be written to, which may be temporary."""


_BY_CODE = {
    kind.code: kind for kind in (HistoryDiverged, OtherConversation, Busy, NotReady, Damaged)
}
_BY_STATUS = {401: Unauthorized, 404: NotFound, 409: Conflict}


def error_of(status: int, body: object, url: str) -> ContextRenderError:
    """Return the error that a reply with this HTTP status and JSON body describes.

    `url` is the address that gave the reply. The error's class is found by the error's code,
    otherwise by the status. A body that is not ContextRender's becomes a ServerError with the code
    `unexpected_reply`.
    """
    error = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping):
        sentence = (
            f"The answer of {url} (HTTP {status}) is not ContextRender's. Is it the right address?"
        )
        return ServerError(sentence, code="unexpected_reply", status=status)
    fields = {str(name): value for name, value in error.items()}
    code, message = str(fields.get("code")), str(fields.get("message"))
    not_details = ("code", "message", "status", "type")
    details = {name: value for name, value in fields.items() if name not in not_details}
    kind = _BY_CODE.get(code) or error_class(status)
    return kind(message, code=code, status=status, **details)


def error_class(status: int) -> type[ContextRenderError]:
    """Return the error class for an HTTP status other than a success."""
    return ServerError if status >= 500 else _BY_STATUS.get(status, InvalidRequest)
