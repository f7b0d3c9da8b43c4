"""Connections to a provider that closes idle connections."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from contextrender_bridge.proxy import provider as provider_module
from contextrender_bridge.proxy.provider import Connections, Unavailable

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Provider:
    """A provider that answers the first request of a connection and closes it at the next.

    If `fails`, it closes each connection at the first request.
    """

    def __init__(self, *, fails: bool = False) -> None:
        self.requests = 0
        self._fails = fails

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answers in (not self._fails, False):
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split()[0]))
            self.requests += 1
            if not answers:
                break
            writer.write(ANSWER)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def start_provider(provider: Provider) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    server = await asyncio.start_server(provider, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    over_http = Connections(60.0)

    async def ask() -> str:
        url = f"http://127.0.0.1:{port}/v1"
        async with over_http.answer("POST", url, [], b"{}") as start:
            return await start.response.text()

    try:
        yield ask
    finally:
        await over_http.close()
        server.close()


def test_request_on_closed_idle_connection_is_retried() -> None:
    async def run() -> None:
        provider = Provider()
        async with start_provider(provider) as ask:
            assert await ask() == "ok"
            replies = await asyncio.gather(*(ask() for _ in range(4)))
            assert replies == ["ok"] * 4
            assert provider.requests == 1 + 4 + 1

    asyncio.run(run())


def test_closed_new_connection_is_not_retried() -> None:
    async def run() -> None:
        provider = Provider(fails=True)
        async with start_provider(provider) as ask:
            with pytest.raises(Unavailable):
                await ask()
        assert provider.requests == 1

    asyncio.run(run())


def test_request_that_fails_late_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_module, "STALE_SECONDS", -1.0)

    async def run() -> None:
        provider = Provider()
        async with start_provider(provider) as ask:
            await ask()
            with pytest.raises(Unavailable):
                await ask()
        assert provider.requests == 2

    asyncio.run(run())
