"""Session names in requests to the proxy."""

from contextrender_bridge.proxy.request import MAX_NAME_CHARS, generated_name, given_name

from tests.proxy.conftest import Setup
from tests.support.transcripts import user

USER = [user("hello")]


def name(path: str = "", **headers: str) -> str:
    header_fields = {key.replace("_", "-"): value for key, value in headers.items()}
    return given_name(path, header_fields) or generated_name(header_fields, USER)


def test_session_name_precedence() -> None:
    assert name("path", x_contextrender_session="own", x_session_id="x") == "path"
    assert name("", x_contextrender_session="own", x_session_id="x") == "own"
    assert name("", x_session_id="x", x_claude_code_session_id="cc") == "x"
    assert name("", x_claude_code_session_id="cc", session_id="codex") == "cc"
    assert name("", session_id="codex") == "codex"
    assert name("").startswith("auto-")


def test_generated_names_differ_by_caller_and_history() -> None:
    first = name("", authorization="Bearer a")
    assert first == name("", authorization="Bearer a")
    assert first != name("", authorization="Bearer b")
    assert first != name("", x_api_key="a")
    other = generated_name({"authorization": "Bearer a"}, [{**USER[0], "content": "hi"}])
    assert other != first


def test_invalid_names_are_sanitized() -> None:
    long = "n" * 400
    assert len(name(long)) <= MAX_NAME_CHARS
    assert name(long) != name(long + "n")
    assert name("a\x00b\n") == "a_b"


def test_session_name_in_path_is_decoded(setup: Setup) -> None:
    response = setup.post("/s/my%20run%2F1/v1/chat/completions", {"messages": USER})
    assert response.headers["x-contextrender-session"] == "my run/1"
    assert setup.model.requests[0].path == "/v1/chat/completions"
