"""The MCP server, spoken to by the official client over stdio and HTTP."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from contextrender_bridge import ContextRender, Credentials

from tests.proxy.agents import TASK, finding

RUN = "import sys; from contextrender_bridge.cli import main; sys.exit(main())"


@pytest.fixture(scope="module")
def session(credentials: Credentials) -> str:
    name = uuid.uuid4().hex
    messages: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
    for number in range(5):
        function = {"name": "look", "arguments": "{}"}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": finding(number)},
        ]
    with ContextRender(credentials.url, credentials.token) as client:
        client.sync(name, messages)
    return name


def environment(credentials: Credentials) -> dict[str, str]:
    known = {"CONTEXTRENDER_URL": credentials.url, "CONTEXTRENDER_TOKEN": credentials.token}
    return {**os.environ, **known}


async def talk(client: Any, session: str) -> None:
    tools = await client.list_tools()
    assert sorted(tool.name for tool in tools.tools) == ["explain", "recall", "sessions"]
    assert all(tool.annotations.read_only_hint for tool in tools.tools)
    listed = await client.call_tool("sessions", {"limit": 100})
    assert session in [one["session"] for one in listed.structured_content["sessions"]]
    found = await client.call_tool("recall", {"session": session, "query": "host_1_X", "limit": 1})
    assert found.structured_content["results"][0]["message"]["content"] == finding(0)
    found = await client.call_tool("recall", {"session": session, "results": [4]})
    assert found.structured_content["results"][0]["message"]["content"] == finding(1)
    told = await client.call_tool("explain", {"session": session, "budget": 400})
    assert {row["shown"] for row in told.structured_content["results"]} >= {"omitted"}
    bad = await client.call_tool("explain", {"session": "nowhere"})
    assert bad.is_error
    assert "nowhere" in bad.content[0].text


def test_over_stdio(credentials: Credentials, session: str) -> None:
    mcp = pytest.importorskip("mcp")
    server = mcp.StdioServerParameters(
        command=sys.executable, args=["-c", RUN, "mcp"], env=environment(credentials)
    )

    async def main() -> None:
        async with mcp.Client(server) as client:
            await talk(client, session)

    asyncio.run(main())


@pytest.fixture
def address(credentials: Credentials) -> Iterator[str]:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = str(listener.getsockname()[1])
    command = [sys.executable, "-c", RUN, "mcp", "--http", "--port", port]
    process = subprocess.Popen(command, env=environment(credentials), stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/mcp"
    until = time.monotonic() + 120
    while True:
        try:
            httpx.get(url)
            break
        except httpx.TransportError:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.1)
    yield url
    process.terminate()
    process.wait()


@pytest.mark.slow
def test_over_http_for_the_bearer_of_the_token(
    credentials: Credentials, session: str, address: str
) -> None:
    assert httpx.post(address, json={}).status_code == 401
    wrong = {"authorization": "Bearer wrong"}
    assert httpx.post(address, json={}, headers=wrong).status_code == 401
    import httpx2

    mcp = pytest.importorskip("mcp")
    from mcp.client.streamable_http import streamable_http_client

    async def main() -> None:
        headers = {"authorization": f"Bearer {credentials.token}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(address, http_client=http)
            async with mcp.Client(transport) as client:
                await talk(client, session)

    asyncio.run(main())
