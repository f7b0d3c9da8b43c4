"""A thread's work answers its request once, also early or with a failure."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from contextrender_bridge.base.errors import ContextRenderError, NotFound, ServerError
from contextrender_bridge.runtime.request import SendReply
from contextrender_bridge.server.process.threads import run_in_thread


def fail(error: Exception) -> Any:
    raise error


def send(send_reply: SendReply, then: Callable[[], object]) -> object:
    send_reply("early")
    return then()


@pytest.mark.parametrize(
    ("work", "expected", "logged"),
    [
        (lambda _: "late", "late", ""),
        (lambda reply: send(reply, lambda: "late"), "early", ""),
        (lambda reply: send(reply, lambda: fail(KeyError())), "early", "task, after its answer,"),
        (lambda _: fail(KeyError()), ServerError, "task"),
        (lambda _: fail(NotFound("none")), NotFound, ""),
    ],
)
def test_request_gets_one_reply(
    caplog: pytest.LogCaptureFixture, work: Any, expected: object, logged: str
) -> None:
    async def ask() -> object:
        try:
            return await run_in_thread(threads, "task", work)
        except ContextRenderError as error:
            return type(error)

    with ThreadPoolExecutor(1) as threads:
        reply = asyncio.run(ask())
    assert reply == expected
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(" failed: ")[0] for line in lines] == ([logged] if logged else [])


def test_work_of_a_cancelled_request_continues() -> None:
    may_end, has_ended = threading.Event(), threading.Event()

    def work(_: SendReply) -> None:
        may_end.wait(30)
        has_ended.set()

    async def cancel() -> None:
        request = asyncio.ensure_future(run_in_thread(threads, "task", work))
        await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        may_end.set()

    with ThreadPoolExecutor(1) as threads:
        asyncio.run(cancel())
        assert has_ended.wait(30)
