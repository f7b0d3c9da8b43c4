"""Background work of an app runs while it is served, once its store can be opened."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from contextrender_bridge.server.process import recovering
from contextrender_bridge.server.process.process_resources import run_periodically
from contextrender_bridge.server.process.recovering import RecoveringApp
from contextrender_bridge.store.writes import StoreUnavailable
from starlette.applications import Starlette

LONG = 1e6


def serve_app(build: Callable[[], Starlette], begun: threading.Event) -> list[str]:
    """Serve an app until `begun` is set; return the messages that it sends."""
    sent_types = []

    async def run() -> None:
        app = RecoveringApp(build, lambda: None)
        steps = iter(("lifespan.startup", "lifespan.shutdown"))

        async def receive() -> dict[str, Any]:
            step = next(steps)
            if step == "lifespan.shutdown":
                await asyncio.to_thread(begun.wait, 30)
            return {"type": step}

        async def send(message: dict[str, Any]) -> None:
            sent_types.append(str(message["type"]))

        await app({"type": "lifespan"}, receive, send)

    asyncio.run(run())
    return sent_types


@pytest.mark.parametrize("refusals", [0, 2])
def test_background_work_runs_until_server_stops(
    refusals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovering, "RETRY_SECONDS", 0.001)
    worked, ended, tries = threading.Event(), threading.Event(), [None] * refusals

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        with run_periodically("work", worked.set, LONG):
            yield
        ended.set()

    def build() -> Starlette:
        if tries:
            tries.pop()
            raise StoreUnavailable("Away.")
        return Starlette(lifespan=lifespan)

    sent_types = serve_app(build, worked)
    assert worked.is_set()
    assert ended.is_set()
    assert sent_types == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_server_without_store_shuts_down_cleanly() -> None:
    begun = threading.Event()

    def build() -> Starlette:
        begun.set()
        raise StoreUnavailable("Away.")

    assert serve_app(build, begun)[-1] == "lifespan.shutdown.complete"


def test_failed_work_is_retried() -> None:
    turns = []

    async def run() -> None:
        success = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work() -> None:
            turns.append(1)
            if len(turns) < 3:
                raise StoreUnavailable("Away.")
            loop.call_soon_threadsafe(success.set)

        with run_periodically("work", work, 0.001):
            await success.wait()

    asyncio.run(run())
    assert len(turns) >= 3
