"""What is answered in place of an exception."""

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from contextrender_bridge.errors import ContextRenderError, InvalidRequest, NotFound
from contextrender_bridge.server.replies import error_response, refusal


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
