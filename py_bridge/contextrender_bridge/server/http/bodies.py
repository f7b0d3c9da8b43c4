"""Bodies of requests, strictly as the walker declares them, and of replies.

A reply is `{"reports": [...]}`, or an error as `asgi` writes it.

The runtime would turn any JSON object with a `__type__` key into an archetype. Nothing here does.
"""

import dataclasses
import json
import re
import sqlite3
from collections.abc import Mapping
from functools import cached_property, partial
from typing import (
    Any,
    ClassVar,
    Final,
    NotRequired,
    Required,
    TypedDict,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from contextrender_bridge.asgi import ClientDisconnected
from contextrender_bridge.base.errors import (
    ContextRenderError,
    InvalidRequest,
    NotFound,
    ServerError,
)
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.base.wire import Json
from contextrender_bridge.server.watching.logs import log_failure
from contextrender_bridge.store.writes import StoreUnavailable
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json, to_jsonable_python
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

# Only such a number can overflow to infinity; it may also be part of a text.
LARGE_EXPONENT = re.compile(rb"[eE]\+?\d{3}")


WalkerInput = bytes | Mapping[str, Any]
"""The fields that are sent to a walker: JSON, or within this process its values."""


class Fields:
    """The fields a client may set on one walker."""

    def __init__(self, walker: type) -> None:
        """Read the walker's `has` fields; those `by postinit` are not for clients."""
        hints = get_type_hints(walker)
        declared = {field.name: field for field in dataclasses.fields(walker) if field.init}
        shape = cast(Any, TypedDict)(
            "shape",
            {
                name: (Required if _is_required(field) else NotRequired)[hints[name]]
                for name, field in declared.items()
            },
        )
        shape.__pydantic_config__ = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
        self._names = sorted(declared)
        self._max_messages = current_settings().max_messages
        self._adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(shape)

    def parse(self, body: WalkerInput) -> Mapping[str, Any]:
        """Return a validated copy of the fields. Raise InvalidRequest naming a wrong one."""
        value = parse_json(body) if isinstance(body, bytes) else json_value(body)
        if isinstance(value, dict):
            self._check_counts(value)
        try:
            fields = self._adapter.validate_python(value)
        except ValidationError as invalid:
            first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
            raise InvalidRequest(self._sentence(first)) from None
        return fields

    def _check_counts(self, fields: Mapping[str, Any]) -> None:
        """Refuse a million of anything before each of them is validated."""
        if len(fields) > len(self._names):
            raise InvalidRequest(self._unknown(next(n for n in fields if n not in self._names)))
        messages = fields.get("messages")
        if isinstance(messages, list) and len(messages) > self._max_messages:
            sentence = (
                f"A request may bring up to {self._max_messages} messages. "
                "Send a longer history in parts, with `offset` and `prefix`."
            )
            raise InvalidRequest(sentence, code="too_many_messages", status=413)

    def _sentence(self, error: Mapping[str, Any]) -> str:
        path = error["loc"]
        field = ".".join(str(part) for part in path)[:100]
        if error["type"] == "missing" and len(path) == 1:
            return f"Field '{field}' is required."
        if error["type"] == "extra_forbidden" and len(path) == 1:
            return self._unknown(field)
        if not path:
            return "The body must be a JSON object."
        return f"Field '{field}': {error['msg'][0].lower()}{error['msg'][1:]}."

    def _unknown(self, field: str) -> str:
        known_fields = ", ".join(self._names) or "none"
        return f"There is no field '{field[:100]}'; the fields are: {known_fields}."


class Reply:
    """The replies of one walker, written by the types that it declares.

    This takes a fifth of the time of looking at the type of each value.
    """

    def __init__(self, walker: type) -> None:
        """Read the type of the walker's `reports`, when the first is written."""
        self._walker = walker

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        declared = get_type_hints(self._walker).get("reports", Any)
        if get_origin(declared) is ClassVar:
            (declared,) = get_args(declared)
        return TypeAdapter(cast(Any, TypedDict)("reply", {"reports": declared}))

    def encode(self, reply: Json) -> bytes:
        """Return JSON of `{"reports": [...]}`."""
        return self._adapter.dump_json(reply, warnings=False, fallback=plain)

    def value(self, reply: Json) -> Any:
        """Return the values of the reply's JSON, with lists and objects of their own."""
        return self._adapter.dump_python(reply, mode="json", warnings=False, fallback=plain)


def parse_json(body: bytes) -> Any:
    """Parse a body as RFC 8259 has it: UTF-8, no NaN or infinity, no lone surrogates."""
    try:
        if LARGE_EXPONENT.search(body):
            json.loads(body, parse_float=_finite)
        return from_json(body or b"{}", allow_inf_nan=False)
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    except (ValueError, RecursionError) as error:
        # Both parsers name the rule and the place, and quote nothing.
        reason = str(error)
    sentence = f"The body is not valid JSON: {reason}."
    raise InvalidRequest(sentence, code="invalid_json", status=400)


def _is_required(field: Any) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _finite(text: str) -> float:
    if (value := float(text)) in (float("inf"), float("-inf")):
        raise ValueError("number out of range")
    return value


def bearer_of(request: Request) -> str:
    """Return the token that a request brings; empty if there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def plain(value: Any) -> Any:
    """Return NumPy scalars and arrays as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be part of a reply")


encode: Final = partial(to_json, fallback=plain)
"""JSON of plain values and Jac objs (their fields alone)."""

json_value: Final = partial(to_jsonable_python, fallback=plain)
"""The values of its JSON, with lists and objects of their own; texts are not copied."""


def json_response(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a reply whose body is JSON already."""
    return Response(body, status, headers, media_type="application/json")


def response_of(result: bytes | ContextRenderError) -> Response:
    """Return the reply with this JSON. Raise the error."""
    if isinstance(result, ContextRenderError):
        raise result
    return json_response(result)


def refusal(failure: BaseException, place: str) -> ContextRenderError:
    """Return what a client learns of `failure`: the app's own errors, of others no detail."""
    if isinstance(failure, ContextRenderError):
        if failure.__cause__ is not None:
            log_failure(place, failure.__cause__)
        return failure
    log_failure(place, failure)
    if isinstance(failure, sqlite3.Error):
        return StoreUnavailable("The store does not answer; try again.")
    return ServerError("The server failed on this request; nothing was written.")


async def _raise_logged(_: Request, error: Exception) -> Response:
    raise refusal(error, "request")


async def _refuse_route(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed_method = (error.headers or {}).get("Allow", "POST")
        raise InvalidRequest(f"Use {allowed_method} here.", code="wrong_method", status=405)
    raise NotFound("Nothing is here; walkers are at /walker/NAME.")


async def _stop(_: Request, __: Exception) -> Response:
    raise ClientDisconnected


REFUSALS: Any = {
    ContextRenderError: _raise_logged,
    HTTPException: _refuse_route,
    ClientDisconnect: _stop,
}
"""Exceptions that the guard around the service answers, in place of Starlette's own replies."""
