"""Every reply's shape: `{"reports": [...]}`, or `{"error": {"code", "message", ...}}`."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from contextrender_bridge.base.errors import (
    ContextRenderError,
    InvalidRequest,
    NotFound,
    ServerError,
)
from contextrender_bridge.server.logs import log_failure
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from graph.store.writes import StoreUnavailable


def encode(value: object) -> bytes:
    """JSON of plain values and Jac objs (their fields alone); NaN becomes null."""
    return to_json(value, fallback=_plain)


def json_response(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A reply whose body is JSON already."""
    return Response(body, status, headers, media_type="application/json")


def error_response(error: ContextRenderError) -> Response:
    """The reply that carries an error; what it has for details joins its code and message."""
    body = {**error.details, "code": error.code, "message": error.message}
    headers = {"www-authenticate": "Bearer"} if error.status == 401 else {}
    if "retry_after" in error.details:
        headers["retry-after"] = str(error.details["retry_after"])
    return json_response(encode({"error": body}), error.status, headers)


def refusal(failure: BaseException, where: str) -> ContextRenderError:
    """What a client learns of `failure`: the app's own errors as they are, of others no detail."""
    if isinstance(failure, ContextRenderError):
        if failure.__cause__ is not None:
            log_failure(where, failure.__cause__)
        return failure
    log_failure(where, failure)
    if isinstance(failure, sqlite3.Error):
        return StoreUnavailable("The store does not answer; try again.")
    return ServerError("The server failed on this request; nothing was written.")


async def _refuse(_: Request, error: Exception) -> Response:
    return error_response(refusal(error, "request"))


async def _refuse_route(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "POST")
        wrong = InvalidRequest(f"Use {allowed} here.", code="wrong_method", status=405)
        return error_response(wrong)
    return error_response(NotFound("Nothing is here; walkers are at /walker/NAME."))


async def _gone(_: Request, __: Exception) -> Response:
    return Response(status_code=400)


REFUSALS: Any = {
    ContextRenderError: _refuse,
    HTTPException: _refuse_route,
    ClientDisconnect: _gone,
}
"""What is answered in place of an exception, for Starlette."""


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be part of a reply")
