"""What a running server does by itself from time to time, in a thread."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from contextrender_bridge.server.logs import log_failure


@asynccontextmanager
async def now_and_then(
    what: str, work: Callable[[], object], seconds: float
) -> AsyncIterator[None]:
    """Does `work` at once and after every so many seconds, for the block. A failure is logged, and
    the next turn may do."""
    stopped = asyncio.Event()
    task = asyncio.create_task(_repeat(what, work, seconds, stopped))
    try:
        yield
    finally:
        stopped.set()
        await task


async def _repeat(
    what: str, work: Callable[[], object], seconds: float, stopped: asyncio.Event
) -> None:
    while not stopped.is_set():
        try:
            await asyncio.to_thread(work)
        except Exception as failure:
            log_failure(what, failure)
        try:
            await asyncio.wait_for(stopped.wait(), seconds)
        except TimeoutError:
            continue
