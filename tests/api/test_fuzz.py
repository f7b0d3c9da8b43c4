"""Every request over HTTP gets an answer or a well-formed refusal, never a 5xx.

`make fuzz` sets `FUZZ_EXAMPLES`. Failed examples are stored in `.hypothesis` and tried first.
"""

import json
from pathlib import Path
from typing import Any, get_args, get_type_hints
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest
from contextrender_bridge.base.wire import Json
from hypothesis import example as instance
from hypothesis import given
from hypothesis import strategies as st

from tests.api.client import error_of
from tests.api.conftest import Service, User, endpoints, example
from tests.support.fuzzing import EXTRAS, JSON, SHELL_MARK, TEXTS, damaged_copy, fuzz, messages, raw
from tests.support.transcripts import agent_run

RUN = agent_run(3)
WALKERS = sorted(path.stem for path in Path("walkers").glob("*.jac"))
METHODS = ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"]
PATHS = ["/", "/walker/", "/console/", "/user/", "/v1/", "/s/", "/k/", "/mcp", "/metrics"]
NUMBERS = st.one_of(st.integers(-2, 9), st.integers(), st.just(2**63), st.just(-(2**63)))


@pytest.fixture(scope="module")
def alice(service: Service) -> User:
    account = service.new_user()
    account.api("sync", session="s", messages=RUN)
    return account


def check_reply(reply: httpx.Response) -> None:
    """Assert that a reply is a report or a well-formed refusal."""
    assert reply.status_code < 500, reply.text
    if reply.status_code == 200:
        assert set(reply.json()) == {"reports"}
    else:
        error_of(reply, reply.status_code, reply.json()["error"]["code"])


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for JSON values of a field's type."""
    strategies: dict[Any, st.SearchStrategy[Any]] = {
        int: NUMBERS,
        bool: st.booleans(),
        float: st.floats(allow_nan=False, allow_infinity=False),
        str: st.one_of(st.just("s"), TEXTS),
        type(None): st.none(),
    }
    if hint in strategies:
        return strategies[hint]
    arguments = get_args(hint)
    if getattr(hint, "__origin__", None) is list:
        return st.lists(values_of(arguments[0]), max_size=3)
    if getattr(hint, "__origin__", None) is dict:
        return st.one_of(messages(), EXTRAS)
    return st.one_of(*(values_of(argument) for argument in arguments)) if arguments else JSON


def test_fuzz_covers_every_endpoint(service: Service) -> None:
    assert sorted(endpoints(service)) == WALKERS


@pytest.mark.parametrize("walker", WALKERS)
@fuzz
@given(data=st.data())
def test_every_endpoint_answers_or_refuses(
    service: Service, alice: User, walker: str, data: st.DataObject
) -> None:
    hints = get_type_hints(service.walkers[walker])
    names = data.draw(st.sets(st.sampled_from(endpoints(service)[walker]), max_size=3))
    right = example(walker, "s") | {
        name: data.draw(values_of(hints[name])) for name in sorted(names)
    }
    if walker == "delete_session":
        right["session"] = data.draw(TEXTS)
    check_reply(alice.api.post(walker, **right))
    check_reply(alice.api.post(walker, body=data.draw(raw(right))))


@fuzz
@given(data=st.data())
def test_invalid_export_is_refused(alice: User, data: st.DataObject) -> None:
    export = alice.api("export_session", session="s")
    body = {"session": uuid4().hex, "data": data.draw(damaged_copy(export))}
    check_reply(alice.api.post("import_session", body=json.dumps(body)))


@fuzz
@given(st.lists(messages(), min_size=1, max_size=4))
@instance([{"role": "user", "content": None, "input": SHELL_MARK, "custom": {"input": SHELL_MARK}}])
def test_export_equals_stored_messages(alice: User, history: list[Json]) -> None:
    session, copy = uuid4().hex, uuid4().hex
    alice.api("sync", session=session, messages=history)
    export = alice.api("export_session", session=session)
    alice.api("import_session", session=copy, data=export)
    for exported in (export, alice.api("export_session", session=copy)):
        (branch,) = exported["branches"]
        # As JSON: 1, 1.0 and true are equal in Python.
        stored_messages = [json.dumps(message, sort_keys=True) for message in branch["messages"]]
        assert stored_messages == [json.dumps(message, sort_keys=True) for message in history]


@fuzz
@given(st.sampled_from(METHODS), st.sampled_from(PATHS), TEXTS, raw({"username": "a"}))
def test_every_route_answers_or_refuses(
    service: Service, alice: User, method: str, path: str, suffix: str, body: bytes
) -> None:
    """Console files, logins, metrics and unknown paths, with and without a token."""
    for headers in ({}, {"authorization": f"Bearer {alice.api.token}"}):
        for name in (path + quote(suffix), "/user/login", "/console/index.html", "/healthz"):
            reply = service.http.request(method, name, content=body, headers=headers)
            assert reply.status_code < 500, (name, reply.text)
            if reply.status_code >= 400 and method != "HEAD":
                assert "error" in reply.json(), (name, reply.text)
