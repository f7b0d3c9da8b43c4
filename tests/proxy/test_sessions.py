"""Whose session a model call belongs to."""

from typing import Any

from contextrender_bridge.proxy.controls import LONGEST_NAME, session_of

from tests.proxy.conftest import Setup
from tests.support.scripted_model import chat, whole

USER: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]


def name(path: str = "", body: dict[str, Any] | None = None, **headers: str) -> str:
    given = [(key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()]
    return session_of(path, given, body or {}, USER)


def test_the_order_of_names() -> None:
    cached = {"prompt_cache_key": "cache:0"}
    assert name("path", cached, x_contextrender_session="own", x_session_id="x") == "path"
    assert name("", cached, x_contextrender_session="own", x_session_id="x") == "own"
    assert name("", cached, x_session_id="x", x_claude_code_session_id="cc") == "x"
    assert name("", cached, x_claude_code_session_id="cc", session_id="codex") == "cc"
    assert name("", cached, session_id="codex") == "codex"
    assert name("", cached) == "cache:0"
    assert name("").startswith("auto-")


def test_names_made_from_the_beginning_are_the_callers_own() -> None:
    first = name("", authorization="Bearer a")
    assert first == name("", authorization="Bearer a")
    assert first != name("", authorization="Bearer b")
    assert first != name("", x_api_key="a")
    other = session_of("", [(b"authorization", b"Bearer a")], {}, [{**USER[0], "content": "hi"}])
    assert other != first


def test_any_name_becomes_one_that_a_session_can_have() -> None:
    long = "n" * 400
    assert len(name(long)) <= LONGEST_NAME
    assert name(long) != name(long + "n")
    assert name("a\x00b\n") == "a_b"


def test_a_session_by_path_is_decoded(setup: Setup) -> None:
    setup.model.script = [whole(chat("x"))]
    got = setup.post("/s/my%20run%2F1/v1/chat/completions", {"messages": USER})
    assert got.headers["x-contextrender-session"] == "my run/1"
    assert setup.model.asked[0].path == "/v1/chat/completions"
