"""Bodies of requests, which are validated by the fields that a walker declares, and of replies.

A reply is `{"reports": [...]}`, or an error in the form of `asgi.error_fields`.

If JSON has a key `__type__`, Jac's own server creates an object of that type. This server does not.
Long because requests, replies and errors share the same encoding.
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
from starlette.requests import Request
from starlette.responses import Response

LARGE_EXPONENT = re.compile(rb"[eE]\+?\d{3}")
"""An exponent of three digits or more. Only numbers with such an exponent can become infinity."""
QUOTED_CHARACTERS: Final = 100
"""The maximum number of characters of a field's name in an error."""

WalkerInput = bytes | Mapping[str, Any]
"""The fields of a request to a walker: JSON from a client, or values from this process."""


class Fields:
    """The fields that a client may set on one walker."""

    def __init__(self, walker: type) -> None:
        """Read the walker's `has` fields, except fields `by postinit`, which clients cannot set."""
        hints = get_type_hints(walker)
        types: dict[str, Any] = {}
        for field in dataclasses.fields(walker):
            if field.init:
                presence = Required if _is_required(field) else NotRequired
                types[field.name] = presence[hints[field.name]]
        fields_type = cast(Any, TypedDict)("fields", types)
        fields_type.__pydantic_config__ = ConfigDict(
            strict=True, extra="forbid", allow_inf_nan=False
        )
        self._names = sorted(types)
        self._max_messages = current_settings().max_messages
        self._adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(fields_type)

    def parse(self, body: WalkerInput) -> Mapping[str, Any]:
        """Return a validated copy of the fields. Raise InvalidRequest if one is invalid."""
        value = parse_json(body) if isinstance(body, bytes) else _copy(body)
        if isinstance(value, dict):
            self._check_counts(value)
        try:
            fields = self._adapter.validate_python(value)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_context=False, include_input=False)
            raise InvalidRequest(self._sentence(errors[0])) from None
        return fields

    def _check_counts(self, fields: Mapping[str, Any]) -> None:
        """Raise InvalidRequest if there are more fields than the walker has, or too many messages.

        This is checked first, because validating very many would take long.
        """
        if len(fields) > len(self._names):
            unknown_name = next(name for name in fields if name not in self._names)
            raise InvalidRequest(self._unknown(unknown_name))
        messages = fields.get("messages")
        if isinstance(messages, list) and len(messages) > self._max_messages:
            sentence = (
                f"A request may bring up to {self._max_messages} messages. "
                "Send a longer history in parts, with `offset` and `prefix`."
            )
            raise InvalidRequest(sentence, code="too_many_messages", status=413)

    def _sentence(self, error: Mapping[str, Any]) -> str:
        """Return the sentence that clients get for one of pydantic's errors. It names the field."""
        path = error["loc"]
        field = ".".join(str(part) for part in path)[:QUOTED_CHARACTERS]
        if error["type"] == "missing" and len(path) == 1:
            return f"Field '{field}' is required."
        if error["type"] == "extra_forbidden" and len(path) == 1:
            return self._unknown(field)
        if not path:
            return "The body must be a JSON object."
        reason = error["msg"]
        return f"Field '{field}': {reason[0].lower()}{reason[1:]}."

    def _unknown(self, field: str) -> str:
        """Return the sentence for a field that the walker does not have."""
        known_fields = ", ".join(self._names) or "none"
        return f"There is no field '{field[:QUOTED_CHARACTERS]}'; the fields are: {known_fields}."


class Reply:
    """The encoder of one walker's replies, which uses the declared type of its `reports`.

    It takes a fifth of the time of an encoder that checks the type of each value.
    """

    def __init__(self, walker: type) -> None:
        """Remember the walker. The type of its `reports` is read with the first reply."""
        self._walker = walker

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        """The adapter of the reply's type: an object whose `reports` have the declared type."""
        declared = get_type_hints(self._walker).get("reports", Any)
        if get_origin(declared) is ClassVar:
            (declared,) = get_args(declared)
        return TypeAdapter(cast(Any, TypedDict)("reply", {"reports": declared}))

    def encode(self, reply: Json) -> bytes:
        """Return a reply, `{"reports": [...]}`, as JSON."""
        return self._adapter.dump_json(reply, warnings=False, fallback=plain)

    def value(self, reply: Json) -> Any:
        """Return a reply as plain JSON values, in new lists and objects."""
        return self._adapter.dump_python(reply, mode="json", warnings=False, fallback=plain)


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON body; an empty body is an empty object.

    Raise InvalidRequest if it does not follow RFC 8259: UTF-8, no NaN or infinity, no lone
    surrogates.
    """
    try:
        # `from_json` reads a number such as 1e999 as infinity, and `_finite` refuses it.
        if LARGE_EXPONENT.search(body):
            json.loads(body, parse_float=_finite)
        return from_json(body or b"{}", allow_inf_nan=False)
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    except (ValueError, RecursionError) as error:
        # Both parsers' messages have the reason and the position, but no contents.
        reason = str(error)
    sentence = f"The body is not valid JSON: {reason}."
    raise InvalidRequest(sentence, code="invalid_json", status=400)


def _copy(fields: Mapping[str, Any]) -> Any:
    """Return fields of this process as new JSON values. Raise InvalidRequest if that fails."""
    try:
        return json_value(fields)
    except ValueError as error:
        sentence = f"The fields cannot be written as JSON: {error}."
        raise InvalidRequest(sentence, code="invalid_json", status=400) from None


def _is_required(field: Any) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _finite(text: str) -> float:
    """Return the number in a text. Raise ValueError if it is too large for a float."""
    if (value := float(text)) in (float("inf"), float("-inf")):
        raise ValueError("number out of range")
    return value


def bearer_of(request: Request) -> str:
    """Return the bearer token of a request; empty if it has none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def plain(value: Any) -> Any:
    """Return a NumPy scalar or array as a plain value. Raise TypeError for anything else."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be part of a reply")


encode: Final = partial(to_json, fallback=plain)
"""Return plain values and Jac objects as JSON. Of a Jac object, the JSON has only the fields."""

json_value: Final = partial(to_jsonable_python, fallback=plain)
"""Return values as plain JSON values, in new lists and objects. Texts are not copied."""


def json_response(body: bytes) -> Response:
    """Return a response with the JSON `body`."""
    return Response(body, media_type="application/json")


def refusal(failure: BaseException, place: str) -> ContextRenderError:
    """Return the error that a client gets for a failure, and log an unexpected failure.

    A ContextRenderError is returned without its cause, which is logged. Of any other failure, the
    client gets no details.
    """
    if isinstance(failure, ContextRenderError):
        if failure.__cause__ is not None:
            log_failure(place, failure.__cause__)
            failure.__cause__ = None  # Log it once, though the error may pass here again.
        return failure
    log_failure(place, failure)
    if isinstance(failure, sqlite3.Error):
        return StoreUnavailable("The store does not answer; try again.")
    return ServerError("The server failed on this request; nothing was written.")


async def refuse_route(_: Request, error: Exception) -> Response:
    """Raise InvalidRequest for a wrong method of a path, otherwise NotFound."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed_method = (error.headers or {}).get("Allow", "POST")
        raise InvalidRequest(f"Use {allowed_method} here.", code="wrong_method", status=405)
    raise NotFound("Nothing is here; walkers are at /walker/NAME.")
