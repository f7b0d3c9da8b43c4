"""The MCP server, used by the official client over stdio and HTTP."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from contextrender_bridge import ContextRender, Credentials

from tests.proxy.agents import TASK, finding
from tests.support.command import PROCESS
from tests.support.programs import free_port, serving_program
from tests.support.transcripts import step, user

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def session(credentials: Credentials) -> str:
    name = uuid.uuid4().hex
    messages = [user(TASK)]
    for number in range(5):
        messages += step(f"c{number}", "look", "{}", finding(number))
    with ContextRender(credentials.url, credentials.token) as client:
        client.sync(name, messages)
    return name


def environment(credentials: Credentials) -> dict[str, str]:
    variables = {"CONTEXTRENDER_URL": credentials.url, "CONTEXTRENDER_TOKEN": credentials.token}
    return {**os.environ, **variables}


async def talk(client: Any, session: str) -> None:
    tools = await client.list_tools()
    assert sorted(tool.name for tool in tools.tools) == ["explain", "recall", "sessions"]
    assert all(tool.annotations.read_only_hint for tool in tools.tools)
    reply = await client.call_tool("sessions", {"limit": 100})
    assert session in [session["session"] for session in reply.structured_content["sessions"]]
    reply = await client.call_tool("recall", {"session": session, "query": "host_1_X", "limit": 1})
    assert reply.structured_content["results"][0]["message"]["content"] == finding(0)
    reply = await client.call_tool("recall", {"session": session, "results": [4]})
    assert reply.structured_content["results"][0]["message"]["content"] == finding(1)
    explanation = await client.call_tool("explain", {"session": session, "budget": 400})
    assert {row["display"] for row in explanation.structured_content["results"]} >= {"omitted"}
    bad = await client.call_tool("explain", {"session": "nowhere"})
    assert bad.is_error
    assert "nowhere" in bad.content[0].text


async def test_mcp_over_stdio(credentials: Credentials, session: str) -> None:
    mcp = pytest.importorskip("mcp")
    server = mcp.StdioServerParameters(
        command=PROCESS[0], args=[*PROCESS[1:], "mcp"], env=environment(credentials)
    )
    async with mcp.Client(server) as client:
        await talk(client, session)


async def test_mcp_finds_service_that_starts_later(
    credentials: Credentials, session: str, tmp_path: Path
) -> None:
    """A plugin starts the service and this server at the same time."""
    mcp = pytest.importorskip("mcp")
    server = mcp.StdioServerParameters(
        command=PROCESS[0],
        args=[*PROCESS[1:], "mcp"],
        env={**os.environ, "CONTEXTRENDER_DATA": str(tmp_path)},
    )
    async with mcp.Client(server) as client:
        reply = await client.call_tool("sessions", {})
        assert reply.is_error
        assert "contextrender serve" in reply.content[0].text
        credentials.save(tmp_path)
        await talk(client, session)
        Credentials("http://127.0.0.1:9", "old").save(tmp_path)
        await talk(client, session)


@pytest.fixture
def address(credentials: Credentials, tmp_path: Path) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    command = [*PROCESS, "mcp", "--http", "--port", port]
    with serving_program(command, environment(credentials), url, tmp_path):
        yield url


@pytest.mark.slow
async def test_mcp_over_http_needs_token(
    credentials: Credentials, session: str, address: str
) -> None:
    assert httpx.post(address, json={}).status_code == 401
    wrong = {"authorization": "Bearer wrong"}
    assert httpx.post(address, json={}, headers=wrong).status_code == 401
    import httpx2

    mcp = pytest.importorskip("mcp")
    from mcp.client.streamable_http import streamable_http_client

    headers = {"authorization": f"Bearer {credentials.token}"}
    async with httpx2.AsyncClient(headers=headers) as http:
        transport = streamable_http_client(address, http_client=http)
        async with mcp.Client(transport) as client:
            await talk(client, session)
