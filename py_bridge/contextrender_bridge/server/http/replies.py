"""Every reply's shape, `{"reports": [...]}` or `{"error": {"code", "message", ...}}`, and work in a
thread whose reply may come before its end.
"""

import asyncio
import contextvars
import sqlite3
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
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

from graph.runtime.request import Tell
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


async def in_thread[Other](
    threads: Executor, what: str, work: Callable[[Tell], bytes | Other]
) -> Response | Other:
    """A reply of what `work` gives, or tells before it ends; of bytes, anything else as it is."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes | Other] = loop.create_future()

    def tell(report: object) -> None:
        loop.call_soon_threadsafe(_settle, answer, encode({"reports": [report]}))

    def end(done: asyncio.Future[bytes | Other]) -> None:
        failure = done.exception()
        if failure is None:
            _settle(answer, done.result())
        elif answer.done():
            refusal(failure, f"{what}, after its answer,")
        else:
            answer.set_exception(failure)

    here = contextvars.copy_context()
    loop.run_in_executor(threads, here.run, work, tell).add_done_callback(end)
    try:
        made = await answer
    except Exception as failure:
        refused = refusal(failure, what)
        # Else what was parsed stays until the collector finds the circle of frame and exception.
        traceback.clear_frames(failure.__traceback__)
        return error_response(refused)
    return json_response(made) if isinstance(made, bytes) else made


def _settle[T](answer: asyncio.Future[T], made: T) -> None:
    if not answer.done():
        answer.set_result(made)
