"""Invalid request bodies get a 4xx with an explanation that never repeats the body."""
# ruff: noqa: E501

import gc
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.server.http.test_replies import error
from tests.server.servers import Server, ask, in_process

NOT_JSON = {
    "half": b'{"messages": [',
    "NaN": b'{"messages": [{"a": NaN}]}',
    "overflowing number": b'{"messages": [{"a": 1e999}]}',
    "lone surrogate": b'{"messages": [{"a": "\\ud800"}]}',
    "Latin-1": b'{"messages": [{"a": "\xe9"}]}',
    "too deep": b'{"messages": ' + b"[" * 9999 + b"]" * 9999 + b"}",
}

INVALID = {
    "array": ("[]", "The body must be a JSON object."),
    "missing field": ("{}", "Field 'messages' is required."),
    "unknown field": ('{"messages": [], "bugdet": 1}', "There is no field 'bugdet'; the fields are: budget, messages, weight."),
    "text for a number": ('{"messages": [], "budget": "12"}', "Field 'budget': input should be a valid integer."),
    "text in a list of objects": ('{"messages": [{}, "secret"]}', "Field 'messages.1': input should be a valid dictionary."),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_JSON)
def test_invalid_json_is_400(client: httpx.Client, case: str) -> None:
    error(client.post("/walker/echo", content=NOT_JSON[case]), 400, "invalid_json")


@pytest.mark.parametrize("case", INVALID)
def test_undeclared_or_invalid_field_is_422(client: httpx.Client, case: str) -> None:
    body, sentence = INVALID[case]
    reply = client.post("/walker/echo", content=body)
    assert error(reply, 422, "invalid_request")["message"] == sentence


def test_integer_is_accepted_for_float(client: httpx.Client) -> None:
    assert client.post("/walker/echo", json={"messages": [], "weight": 1}).status_code == 200


def test_type_key_creates_no_object(client: httpx.Client) -> None:
    messages = [
        {"__type__": "Page", "__module__": "contextrender", "code": "x", "message": "y"},
        {"a": {"__type__": "NodeAnchor", "id": "0"}, "$ref": "0", "_jac_spawn_node": "0"},
    ]
    reply = client.post("/walker/echo", json={"messages": messages})
    assert reply.json() == {"reports": [messages]}


def test_body_with_too_large_content_length_is_refused(server: Server) -> None:
    reply = httpx.post(server.url + "/walker/echo", content=b" " * (2 * 2**20 + 1))
    assert error(reply, 413, "body_too_large")["message"] == "A body may have up to 2 MB."


def test_streamed_body_over_the_limit_is_refused(client: httpx.Client) -> None:
    def chunks(megabytes: int) -> Iterator[bytes]:
        yield b'{"messages": [{"a": "'
        for _ in range(megabytes):
            yield b"x" * 2**20
        yield b'"}]}'

    assert client.post("/walker/echo", content=chunks(1)).status_code == 200
    assert client.post("/walker/echo", content=chunks(2)).status_code == 413


def test_first_unknown_field_is_refused(client: httpx.Client) -> None:
    """The check stops at the first one."""
    reply = client.post("/walker/echo", json={f"n{number}": 0 for number in range(100_000)})
    error_fields = error(reply, 422, "invalid_request")
    assert error_fields["message"].startswith("There is no field 'n0'; ")


def test_refused_body_is_freed(tmp_path: Path) -> None:
    """The garbage collector is off, so a reference cycle would keep the body in memory."""
    body = json.dumps({"messages": [{"unlike_any": [number]} for number in range(30_000)]})

    with in_process(tmp_path) as service:
        gc.disable()
        try:
            for _ in range(3):
                reply = ask(service.app, "POST", "/walker/sync", service.token, content=body)
                error(reply, 413, "too_many_messages")
            dicts = (container for container in gc.get_objects() if isinstance(container, dict))
            assert not [container for container in dicts if "unlike_any" in container]
        finally:
            gc.enable()
