"""The Python client with a real server."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from contextrender_bridge import ContextRender, Credentials, NoCredentials, RenderedRequest
from contextrender_bridge.base import settings
from contextrender_bridge.base.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    ServerError,
    Unauthorized,
    Unreachable,
)
from contextrender_bridge.base.settings import forget_settings
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.fitting import apply_plan
from contextrender_bridge.dialects import DIALECTS

from tests.client.conftest import history


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CONTEXTRENDER_URL", "CONTEXTRENDER_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CONTEXTRENDER_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def bodies(client: ContextRender) -> list[Json]:
    sent_bodies: list[Json] = []
    hook = client._http.event_hooks["request"]
    hook.append(lambda request: sent_bodies.append(json.loads(request.content)))
    client._http.event_hooks = {"request": hook}
    return sent_bodies


def test_only_new_messages_are_sent(
    client: ContextRender, bodies: list[Json], session: str
) -> None:
    messages = history(1)
    first = client.render(session, messages)
    messages += history(2)[3:]
    second = client.render(session, messages)
    reply = client.render(session, messages)
    assert [len(body["messages"]) for body in bodies] == [3, 2, 0]
    assert [(body["offset"], body["prefix"]) for body in bodies] == [
        (0, ""),
        (3, first["digest"]),
        (5, second["digest"]),
    ]
    assert reply == second
    assert second["messages"] == messages


def test_full_history_is_sent_when_server_lost_session(
    client: ContextRender, bodies: list[Json], session: str, credentials: Credentials
) -> None:
    client.render(session, history(1))
    with ContextRender(credentials.url, credentials.token) as other:
        other.delete_session(session)
    reply = client.render(session, history(2))
    assert [body.get("offset", 0) for body in bodies] == [0, 3, 0]
    assert reply["messages"] == history(2)


def test_render_continues_after_sync(
    client: ContextRender, bodies: list[Json], session: str
) -> None:
    assert client.sync(session, history(1), settings={"budget": 900})["recorded"] == 3
    assert client.sync(session, history(1))["recorded"] == 0
    assert client.render(session, history(9))["budget"] == 900
    assert bodies[-1]["offset"] == 3


def test_other_endpoints(client: ContextRender, session: str) -> None:
    copy = f"{session} copy"
    client.render(session, history(), model="gpt-4o")
    explained = client.explain(session, turn=2, policy="prune", budget=500)
    assert [result["position"] for result in explained["results"]] == [2]
    recalled = client.recall(session, results=[4])["results"]
    assert [result["message"] for result in recalled] == [history()[4]]
    assert len(client.recall(session, query="next host", limit=2)["results"]) == 2
    assert client.inspect_session(session)["session"]["results"] == 3
    data = client.export_session(session)
    assert data["branches"][0]["messages"] == history()
    assert client.import_session(data, session=copy)["offset"] == 7
    newest = client.list_sessions(limit=1)
    assert [listed["session"] for listed in newest["sessions"]] == [copy]
    older = client.list_sessions(limit=1, cursor=newest["next"])
    assert [listed["session"] for listed in older["sessions"]] == [session]
    with pytest.raises(Conflict, match="already"):
        client.import_session(data)
    client.delete_session(session)
    with pytest.raises(NotFound, match="no session"):
        client.inspect_session(session)


def test_each_refusal_raises_its_error(client: ContextRender, credentials: Credentials) -> None:
    with pytest.raises(InvalidRequest, match="role must be") as refused:
        client.render("bad", [{"role": "nobody"}])
    assert (refused.value.code, refused.value.status) == ("invalid_request", 422)
    with pytest.raises(InvalidRequest, match="JSON"):
        client.render("bad", [{"role": "user", "content": "cut \ud83d"}])
    with pytest.raises(NotFound):
        client.explain("bad")
    with ContextRender(credentials.url, "wrong") as stranger, pytest.raises(Unauthorized):
        stranger.list_sessions()
    with (
        ContextRender("http://127.0.0.1:9", "t") as nowhere,
        pytest.raises(Unreachable) as unreachable,
    ):
        nowhere.list_sessions()
    assert unreachable.value.status == 0


@pytest.mark.parametrize("source", ["CONTEXTRENDER_TOKEN", "given to the client"])
def test_invalid_token_error_names_source_and_command(
    source: str,
    credentials: Credentials,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    token = None if source == "CONTEXTRENDER_TOKEN" else "wrong"
    monkeypatch.setenv("CONTEXTRENDER_TOKEN", "" if token else "wrong")
    forget_settings()
    try:
        with ContextRender(credentials.url, token) as stranger:
            with pytest.raises(Unauthorized, match=source) as refused:
                stranger.list_sessions()
            assert "`contextrender user token NAME`" in refused.value.message
            messages = [{"role": "user", "content": "hi"}]
            with caplog.at_level("WARNING", "contextrender"):
                for number in range(5):
                    assert stranger.fit(f"s{number}", messages).failure == "unauthorized"
    finally:
        monkeypatch.undo()
        forget_settings()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "contextrender"]
    assert "history sent unchanged (unauthorized)" in line and source in line


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"<html>"), (200, b'{"reports": []}'), (503, b"{}")]
)
def test_invalid_reply_raises_server_error(client: ContextRender, status: int, body: bytes) -> None:
    client._http._transport = httpx.MockTransport(lambda _: httpx.Response(status, content=body))
    with pytest.raises(ServerError):
        client.list_sessions()


def test_address_and_token_come_from_arguments_environment_or_file(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch, credentials: Credentials
) -> None:
    with ContextRender() as client, pytest.raises(NoCredentials):
        client.list_sessions()
    credentials.save(data_folder)
    with ContextRender() as client:
        assert client.url == credentials.url
        client.list_sessions()
    with ContextRender("http://localhost:1/") as client:
        assert client.url == "http://localhost:1"
        assert client.core.token == credentials.token
    monkeypatch.setenv("CONTEXTRENDER_URL", "https://elsewhere.example/")
    with pytest.raises(NoCredentials, match="CONTEXTRENDER_TOKEN"):
        ContextRender()
    monkeypatch.setenv("CONTEXTRENDER_TOKEN", "theirs")
    with ContextRender() as client:
        assert (client.url, client.core.token) == ("https://elsewhere.example", "theirs")
    assert "theirs" not in repr(Credentials("u", "theirs"))


def test_fit_returns_full_history_when_service_is_down(
    data_folder: Path, credentials: Credentials, caplog: pytest.LogCaptureFixture
) -> None:
    messages = [{"role": "user", "content": "hunter2"}]
    with ContextRender() as client:
        for _ in range(3):
            assert client.fit("s", messages).messages == messages
        assert client.failures.counts() == {"no_credentials": 3}
        assert len(caplog.records) == 1
        assert "contextrender serve" in caplog.text

        # The client finds a service that starts later, and one that has moved.
        Credentials("http://127.0.0.1:9", credentials.token).save(data_folder)
        assert client.fit("s", messages).failure == "unreachable"
        assert "No answer from http://127.0.0.1:9" in caplog.text
        credentials.save(data_folder)
        assert client.fit("s", messages).failure == ""
        assert client.url == credentials.url


def test_fit_uses_budget_from_environment(
    monkeypatch: pytest.MonkeyPatch, credentials: Credentials, session: str
) -> None:
    monkeypatch.setenv("CONTEXTRENDER_BUDGET", "1500")
    monkeypatch.setenv("CONTEXTRENDER_POLICY", "prune")
    settings.forget_settings()
    try:
        with ContextRender(credentials.url, credentials.token) as client:
            rendered = client.fit(session, history(12))
            with_budget = client.fit(session, history(12), budget=2000)
    finally:
        monkeypatch.undo()
        settings.forget_settings()
    assert rendered.reply is not None
    assert with_budget.reply is not None
    assert (rendered.reply["budget"], rendered.reply["policy"]) == (1500, "prune")
    assert with_budget.reply["budget"] == 2000


def test_local_token_is_not_sent_to_other_machines(
    data_folder: Path, credentials: Credentials
) -> None:
    credentials.save(data_folder)
    with pytest.raises(NoCredentials, match="not for"):
        ContextRender("https://elsewhere.example")


def test_local_requests_bypass_network_proxy(
    monkeypatch: pytest.MonkeyPatch, credentials: Credentials
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with ContextRender(credentials.url, credentials.token) as client:
        client.list_sessions()


def test_fit_keeps_pinned_calls(client: ContextRender, session: str) -> None:
    messages = history(12)
    plain = client.fit(session, messages, budget=1_500, fail_open=False)
    rendered = client.fit(session, messages, budget=1_500, pinned_calls=["c0"], fail_open=False)
    assert messages[2] not in plain.messages
    assert messages[2] in rendered.messages
    assert rendered.reply is not None
    assert rendered.reply["pinned"] == [{"position": 2, "display": "complete"}]
    with pytest.raises(InvalidRequest, match="pinned_tools"):
        client.fit(session, messages, pinned_tools="get_*")


def test_fit_keeps_results_of_bypassed_tools(client: ContextRender, session: str) -> None:
    messages = history(12)
    assert client.fit(session, messages, budget=1_500, fail_open=False).changed
    with_bypass = client.fit(session, messages, budget=1_500, bypass_tools=["*"], fail_open=False)
    assert [message for message in with_bypass.messages if message["role"] == "tool"] == [
        message for message in messages if message["role"] == "tool"
    ]
    with pytest.raises(InvalidRequest, match="bypass_tools"):
        client.fit(session, messages, bypass_tools="get_*")


def test_excerpt_line_names_recall_only_if_available(client: ContextRender, session: str) -> None:
    log = "\n".join(f"line {number} FATAL disk_full_{number}" for number in range(1500))
    messages = [*history(1)[:2], {**history(1)[2], "content": log}]
    recall = [{"type": "function", "function": {"name": "mcp__contextrender__recall"}}]
    fields: dict[str, Any] = {"budget": 1_500, "fail_open": False}
    plain = client.fit(session, messages, **fields)
    rendered = client.fit(session, messages, recalls=True, **fields)
    with_tool = client.fit(session, {"messages": messages, "tools": recall}, **fields)

    def line(request: RenderedRequest) -> str:
        return str(request.messages[2]["content"]).partition("\n")[0]

    assert line(plain).endswith("; call its tool again for all of it]")
    assert line(rendered).endswith("; recall result 2 for all of it]")
    assert line(with_tool) == line(rendered)


def test_restored_text_line_names_recall_only_if_available() -> None:
    body = {"messages": history(1)}
    transcript = DIALECTS["chat"].read(body)
    restored_text = "[Parts of result 2, which left; recall result 2 for all of it:]\nline 7"
    reply: Any = {"omitted": [], "dropped_turns": [], "truncated_messages": []}
    reply["substitutes"] = [{"position": 2, "kind": "excerpt", "tokens": 9, "text": restored_text}]
    reply["plan"] = [{"message": 1, "calls": [0], "text": None, "arguments": None}]
    reply["plan"] += [{"message": 2, "calls": [], "text": restored_text, "arguments": None}]
    (result,) = [m for m in apply_plan(body, transcript, reply).messages if m["role"] == "tool"]
    assert result["content"].startswith("[Parts of result 2, which left; call its tool again for")
