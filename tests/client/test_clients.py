"""Both clients with a real service: requests, retries and fail open."""

import asyncio
import json
import logging
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from contextrender_bridge import AsyncContextRender, ContextRender, Credentials
from contextrender_bridge.base.errors import InvalidRequest, ServerError
from contextrender_bridge.base.wire import Json

from tests.client.conftest import history

Talk = Callable[[AsyncContextRender], Awaitable[Any]]


def run(credentials: Credentials, talk: Talk, **options: Any) -> Any:
    async def main() -> Any:
        async with AsyncContextRender(credentials.url, credentials.token, **options) as client:
            return await talk(client)

    return asyncio.run(main())


def run_client(
    kind: str, credentials: Credentials, method: str, *arguments: Any, **fields: Any
) -> Any:
    if kind == "async":
        return run(credentials, lambda client: getattr(client, method)(*arguments, **fields))
    with ContextRender(credentials.url, credentials.token) as client:
        return getattr(client, method)(*arguments, **fields)


class RecordingTransport(httpx.AsyncBaseTransport):
    """A transport that records requests and answers the first ones with `first`."""

    def __init__(self, first: list[httpx.Response | Exception] | None = None) -> None:
        self.bodies: list[Json] = []
        self.sessions: list[str | None] = []
        self.first = first or []
        self._inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(request.content or b"{}"))
        self.sessions.append(request.headers.get("x-contextrender-session"))
        if self.first:
            answer = self.first.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def test_header_has_session_name(credentials: Credentials) -> None:
    transport = RecordingTransport()

    async def talk(client: AsyncContextRender) -> Any:
        await client.render("ein Gespräch", history(1))
        await client.list_sessions()

    run(credentials, talk, transport=transport)
    assert transport.sessions == ["ein%20Gespr%C3%A4ch", None]


BUSY = {"error": {"code": "busy", "message": "Try again."}}


def test_failed_connections_are_retried(credentials: Credentials, session: str) -> None:
    broken: list[httpx.Response | Exception] = [
        httpx.ConnectError("no"),
        httpx.Response(503, json=BUSY),
    ]
    transport = RecordingTransport(broken)
    reply = run(credentials, lambda client: client.render(session, history(1)), transport=transport)
    assert reply["offset"] == 3
    assert len(transport.bodies) == 3


def test_retries_are_bounded(credentials: Credentials) -> None:
    transport = RecordingTransport([httpx.Response(503, json=BUSY) for _ in range(9)])
    with pytest.raises(ServerError):
        run(credentials, lambda client: client.list_sessions(), transport=transport, retries=1)
    assert len(transport.bodies) == 2
    transport = RecordingTransport([httpx.Response(503, json=BUSY) for _ in range(9)])
    with pytest.raises(ServerError):
        run(credentials, lambda client: client.import_session({}), transport=transport)
    assert len(transport.bodies) == 1


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_fit_returns_the_callers_message_objects(
    credentials: Credentials, session: str, kind: str
) -> None:
    messages = history(12)
    fields = {"budget": 900, "policy": "contextrender"}
    rendered = run_client(kind, credentials, "fit", session, messages, **fields)
    assert rendered.changed
    assert not rendered.failure
    assert len(rendered.messages) < len(messages)
    assert all(any(message is original for original in messages) for message in rendered.messages)
    assert rendered.reply["tokens_after"] <= 900


@pytest.mark.parametrize("wrong", [{"policy": "nope"}, {"budget": 5}, {"parameters": {"x": 1}}])
def test_fit_raises_for_invalid_settings(
    client: ContextRender, session: str, wrong: dict[str, Any]
) -> None:
    """With an invalid setting no call could be rendered, so `fit` must not fail open."""
    with pytest.raises(InvalidRequest):
        client.fit(session, history(3), **wrong)
    assert client.fit(session, [{"role": "tool"}, {"role": "user"}]).messages


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ("hello", "a list of chat messages, not a text"),
        (None, "a list of chat messages, not NoneType"),
        (["hello"], "message 0: it is not a mapping"),
        ([{"role": "user", "content": "a"}, {"content": "b"}], "message 1: it has no role"),
        ([{"role": "usr", "content": "a"}], "message 0: 'usr' is not a role"),
    ],
)
def test_fit_raises_for_items_that_are_no_messages(
    client: ContextRender, messages: Any, problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        client.fit("s", messages)


def test_fit_uses_agent_defaults_without_settings(client: ContextRender, session: str) -> None:
    rendered = client.fit(session, history(3))
    assert rendered.reply is not None
    assert (rendered.reply["policy"], rendered.reply["budget"]) == (
        "contextrender_cache_aware",
        24_000,
    )
    client.sync(session, history(3), settings={"budget": 900})
    reply = client.fit(session, history(3)).reply
    assert reply is not None and reply["budget"] == 900
    assert client.render(session, history(3))["policy"] == "contextrender"


def test_fit_accepts_request_bodies(client: ContextRender, session: str) -> None:
    body = {"model": "m", "instructions": "Help.", "input": "hello"}
    rendered = client.fit(session, body, dialect="responses")
    assert rendered.body == body
    assert not rendered.changed
    assert client.inspect_session(session)["session"]["messages"] == 2


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_fit_returns_original_when_service_is_down(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    messages = [{"role": "user", "content": "hunter2"}]
    nowhere = Credentials("http://127.0.0.1:9", "t")
    with caplog.at_level(logging.WARNING, "contextrender"):
        rendered = run_client(kind, nowhere, "fit", "s", messages)
    assert rendered.messages == messages
    assert (rendered.failure, rendered.changed) == ("unreachable", False)
    assert "hunter2" not in caplog.text
    assert "history sent unchanged (unreachable)" in caplog.text


EMBEDDED = """
import asyncio, sys
from pathlib import Path
from contextrender_bridge import embedded, embedded_async

messages = [{"role": "user", "content": "hello"}]
with embedded(sys.argv[1]) as credentials, credentials.client() as client:
    large = [{"role": "user", "content": "hello " * 200_000}]
    client.fit("large", large, deadline=0.000_1)  # the deadline passes before the answer
    print(client.render("s", messages)["offset"], client.fit("s", messages).failure)

async def main():
    async with embedded_async(Path(sys.argv[1])) as client:
        return await client.inspect_session("s")

print(asyncio.run(main())["session"]["messages"])
"""


@pytest.mark.slow
def test_embedded_service(tmp_path: Path) -> None:
    command = [sys.executable, "-c", EMBEDDED, str(tmp_path / "data")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.stdout.split() == ["1", "1"], ran.stderr
    lines = [line for line in ran.stderr.splitlines() if not line.startswith("Loading")]
    assert lines == ["history sent unchanged (late)"], "the program's logging is its own"


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_passed_deadline_is_late(kind: str) -> None:
    """The server accepts the connection and never answers."""
    messages = [{"role": "user", "content": "hello"}]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mute = Credentials(f"http://127.0.0.1:{silent.getsockname()[1]}", "t")
        rendered = run_client(kind, mute, "fit", "s", messages, deadline=0.2)
    assert (rendered.failure, rendered.messages) == ("late", messages)
