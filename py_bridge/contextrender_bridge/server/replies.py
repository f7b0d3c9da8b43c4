"""Every reply's shape: `{"reports": [...]}`, or `{"error": {"code", "message", ...}}`."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from contextrender_bridge.server.logs import log_failure
from engine.errors import ContextRenderError


class ApiError(Exception):
    """A refusal the client is told about."""

    def __init__(
        self, status: int, code: str, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        """`details` join `code` and `message` in the reply."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details or {}

    def response(self) -> Response:
        """The reply that carries it."""
        error = {**self.details, "code": self.code, "message": self.message}
        headers = {"www-authenticate": "Bearer"} if self.status == 401 else None
        return json_response(encode({"error": error}), self.status, headers)


def encode(value: object) -> bytes:
    """JSON of plain values and Jac objs (their fields alone); NaN becomes null."""
    return to_json(value, fallback=_plain)


def json_response(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A reply whose body is JSON already."""
    return Response(body, status, headers, media_type="application/json")


def refusal(failure: BaseException, where: str) -> ApiError:
    """What a client learns of `failure`: the app's own errors as they are, of others no detail."""
    if isinstance(failure, ApiError):
        return failure
    if isinstance(failure, ContextRenderError):
        return ApiError(failure.status, failure.code, failure.message, failure.details)
    log_failure(where, failure)
    if isinstance(failure, sqlite3.Error):
        return ApiError(503, "storage", "The store did not take the change; nothing was written.")
    return ApiError(500, "internal", "The server failed on this request; nothing was written.")


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be part of a reply")
