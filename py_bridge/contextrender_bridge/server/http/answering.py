"""Work in a thread whose answer may come before its end."""

import asyncio
import contextvars
import traceback
from collections.abc import Callable
from concurrent.futures import Executor

from contextrender_bridge.server.http.replies import encode, error_response, json_response, refusal
from starlette.responses import Response

from graph.runtime.host import Tell


async def in_thread[Other](
    threads: Executor, what: str, work: Callable[[Tell], bytes | Other]
) -> Response | Other:
    """A reply of what `work` gives, or tells before it ends; of bytes, anything else as it is."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes | Other] = loop.create_future()

    def tell(report: object) -> None:
        loop.call_soon_threadsafe(_settle, answer, encode({"reports": [report]}))

    def end(done: asyncio.Future[bytes | Other]) -> None:
        failure = done.exception()
        if failure is None:
            _settle(answer, done.result())
        elif answer.done():
            refusal(failure, f"{what}, after its answer,")
        else:
            answer.set_exception(failure)

    here = contextvars.copy_context()
    loop.run_in_executor(threads, here.run, work, tell).add_done_callback(end)
    try:
        made = await answer
    except Exception as failure:
        refused = refusal(failure, what)
        # Else what was parsed stays until the collector finds the circle of frame and exception.
        traceback.clear_frames(failure.__traceback__)
        return error_response(refused)
    return json_response(made) if isinstance(made, bytes) else made


def _settle[T](answer: asyncio.Future[T], made: T) -> None:
    if not answer.done():
        answer.set_result(made)
