"""Replies: one format for reports, one for errors, and no contents that were not requested."""

from dataclasses import dataclass
from typing import Any, ClassVar

import httpx
import numpy as np
import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.server.http.bodies import Reply, encode, json_value
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json

from tests.api.client import error_of
from tests.server.servers import Server

CANARY = "CANARY_7391"
RUNTIME_ROUTES = (
    *("/docs", "/openapi.json", "/admin", "/cl/app", "/static/a.js"),
    *("/user/me", "/walkers", "/functions"),
    *("/user/register", "/user/create", "/user/refresh-token"),
)


def error(reply: httpx.Response, status: int, code: str) -> Json:
    """Return the error in a reply; assert that its message is a sentence."""
    error_fields = error_of(reply, status, code)
    assert error_fields["message"].endswith(".")
    return error_fields


def test_success_has_only_reports(client: httpx.Client) -> None:
    reply = client.post("/walker/append", json={"key": "shape", "texts": ["a", "b"]})
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    (page,) = reply.json()["reports"]
    response = client.post("/walker/show", json={"key": "shape"}).json()
    lines = [{"number": 0, "text": "a"}, {"number": 1, "text": "b"}]
    response["reports"][0]["lines"].sort(key=lambda line: line["number"])
    assert response == {"reports": [{"key": "shape", "id": page["id"], "lines": lines}]}


def test_endpoint_without_fields_accepts_empty_body(client: httpx.Client) -> None:
    assert client.post("/walker/noop").json() == {"reports": [None]}


def test_app_error_has_its_details(client: httpx.Client) -> None:
    reply = client.post("/walker/append", json={"key": "p", "texts": [], "end": "raise"})
    error_fields = error(reply, 409, "history_diverged")
    assert error_fields == {
        "type": "history_diverged",
        "code": "history_diverged",
        "message": "Send all of it.",
        "recorded": 3,
    }


def test_unexpected_exception_reveals_nothing(client: httpx.Client, server: Server) -> None:
    reply = client.post("/walker/append", json={"key": "p", "texts": [CANARY], "end": "crash"})
    error(reply, 500, "internal")
    assert CANARY not in reply.text
    assert "walker append failed: ValueError at contextrender.jac" in server.err


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/walker/nothing", 404),
        ("POST", "/walker/noop/abc", 404),
        ("GET", "/walker/noop", 405),
        ("OPTIONS", "/walker/noop", 405),
        ("POST", "/healthz", 405),
    ],
)
def test_wrong_path_or_method_is_refused(
    client: httpx.Client, method: str, path: str, status: int
) -> None:
    reply = client.request(method, path)
    error(reply, status, reply.json()["error"]["code"])


def test_runtime_routes_are_removed(server: Server) -> None:
    for path in RUNTIME_ROUTES:
        assert httpx.get(server.url + path).status_code == 404
        form = {"username": "eve", "password": "12345678"}
        assert httpx.post(server.url + path, json=form).status_code == 404


def test_contents_are_not_printed(client: httpx.Client, server: Server) -> None:
    message = {"role": "user", "content": CANARY}
    assert client.post("/walker/echo", json={"messages": [message]}).status_code == 200
    client.post("/walker/append", json={"key": CANARY, "texts": [CANARY], "end": "crash"})
    client.post("/walker/echo?q=" + CANARY, json={CANARY: CANARY})
    client.post("/walker/" + CANARY)
    assert server.out.count("\n") == 1
    assert CANARY not in server.out + server.err


@dataclass
class View:
    first: Any
    second: Any = None


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
REPORTS = st.recursive(
    LEAVES | st.floats(width=32, allow_nan=False, allow_infinity=False).map(np.float32),
    lambda reports: (
        st.lists(reports)
        | st.tuples(reports)
        | st.dictionaries(st.text() | st.integers(), reports)
        | st.builds(View, reports, reports)
    ),
)


@given(REPORTS)
@settings(max_examples=20)
def test_in_process_reply_equals_json(report: Any) -> None:
    assert json_value({"reports": [report]}) == from_json(encode({"reports": [report]}))


class Reporting:
    """A walker that declares the type of its reports."""

    reports: ClassVar[list[View]]


@given(st.lists(st.builds(View, REPORTS, REPORTS)))
@settings(max_examples=20)
def test_declared_types_do_not_change_reply(reports: Any) -> None:
    reply = Reply(Reporting)
    assert reply.encode({"reports": reports}) == encode({"reports": reports})
    assert reply.value({"reports": reports}) == json_value({"reports": reports})


def test_in_process_reply_is_a_copy() -> None:
    report = {"calls": [{"id": "a"}]}
    json_value(report)["calls"][0]["id"] = "b"
    reply = {"reports": [View(report)]}
    Reply(Reporting).value(reply)["reports"][0]["first"]["calls"][0]["id"] = "b"
    assert report == {"calls": [{"id": "a"}]}
