"""The threads of a service: for agents' calls, low-priority requests, and models and embedders.

Only one thread of a Python process computes at a time, and a page of the console can need seconds.
Low-priority requests therefore pause every few milliseconds. While agents' calls run, or ran a
moment ago, low-priority requests together rest nine times as long as they have worked. Otherwise
they do not rest.
Long because the pools, the pace and the providers' calls belong together.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from contextrender_bridge.base.settings import Settings
from contextrender_bridge.engine.models.providers import (
    Answer,
    PendingProviderCall,
    ProviderAnswers,
)
from contextrender_bridge.engine.replay import pausing
from contextrender_bridge.runtime.request import SendReply
from contextrender_bridge.server.accounts.callers import Caller
from contextrender_bridge.server.http.bodies import refusal
from contextrender_bridge.server.process.process_resources import OneProcessor

LOW_PRIORITY_THREADS: Final = 4
"""The number of low-priority requests that run at a time. No agent's call waits for them."""

WORK_SECONDS: Final = 0.002
"""The seconds for which a low-priority request works without a pause."""
REST_FACTOR: Final = 9
MAX_REST_SECONDS: Final = 2.0
"""The longest rest, even after long work that could not be interrupted."""
RECENT_SECONDS: Final = 0.05
"""The seconds after an agent's call in which low-priority requests still pause."""


type Work = Callable[[Caller, ProviderAnswers, SendReply], Any]
"""A function that returns a reply, or a PendingProviderCall. In that case it is run again with the
answer among the ProviderAnswers. It may send the reply before it ends."""


class Threads:
    """The thread pools of one service."""

    def __init__(self, settings: Settings, processor: OneProcessor) -> None:
        """Create the pools. Agents' calls run on one processor, other threads on any."""
        self._calls = ThreadPoolExecutor(
            settings.threads, "walker", initializer=processor.add_thread
        )
        self._low_priority = ThreadPoolExecutor(
            LOW_PRIORITY_THREADS, "low-priority", initializer=processor.release_thread
        )
        self._providers = ProviderThreads(settings.provider_threads, processor.release_thread)
        self._pace = Pace()

    def close(self) -> None:
        """Wait for the work that has begun, and stop the threads."""
        self._providers.close()
        self._calls.shutdown(wait=True)
        self._low_priority.shutdown(wait=True)

    async def answer(
        self, task: str, admit: Callable[[], Caller], work: Work, *, is_low_priority: bool
    ) -> Any:
        """Run `work` in a thread, and return its result, or raise the error for the client.

        First run `admit` in the thread, once, to find the caller. If `work` returns a
        PendingProviderCall, wait for the provider's answer without a thread, and run `work` again.
        Requests of a user that need the same answer share it. `task` names the work in the log.
        """
        answers = ProviderAnswers()
        callers: list[Caller] = []  # the caller, once it is admitted
        keys: list[Hashable] = []  # the keys of the answers that this request needs

        def run(send_reply: SendReply) -> Any:
            """Admit the caller at the first run, and do the work."""
            if not callers:
                callers.append(admit())
            pace = self._pace.low_priority() if is_low_priority else self._pace.agent_call()
            with pace:
                return work(callers[0], answers, send_reply)

        threads = self._low_priority if is_low_priority else self._calls
        try:
            # Repeat the work until it needs no further answer of a provider.
            while isinstance(
                result := await run_in_thread(threads, task, run), PendingProviderCall
            ):
                key = (callers[0].root, result.key)
                keys.append(key)
                answer = asyncio.wrap_future(self._providers.ask(key, result))
                # If this request is cancelled, other requests still get the answer.
                answers.put(result, await asyncio.shield(answer))
        finally:
            for needed_key in keys:
                self._providers.release(needed_key)
        return result


class Pace:
    """The pace of low-priority requests, which sleep now and then so that agents' calls run first.

    Their work adds to one rest, which all of them keep while agents' calls run. It is thread-safe.
    """

    def __init__(self) -> None:
        """Begin without running calls, and without a rest. Times are of `time.monotonic`."""
        self._lock = threading.Lock()
        self._running_calls = 0
        self._last_call_end = float("-inf")
        self._rest_until = 0.0
        """The end of the rest of all low-priority requests. Each second of their work delays it."""
        self._thread = threading.local()
        """For each thread, `work_start`: its processor time when its work began."""

    @contextmanager
    def agent_call(self) -> Iterator[None]:
        """Count a running agent's call during the block."""
        with self._lock:
            self._running_calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._running_calls -= 1
                self._last_call_end = time.monotonic()

    @contextmanager
    def low_priority(self) -> Iterator[None]:
        """Run a low-priority request in the block, which may have to rest first.

        It also rests when the code in the block calls `let_requests_run`, which calls `pause`. Its
        processor time extends the rest of all low-priority requests.
        """
        self._sleep_if_due()
        self._thread.work_start = time.thread_time()
        try:
            with pausing(self.pause):
                yield
        finally:
            self._add_rest(time.thread_time() - self._thread.work_start)

    def pause(self) -> None:
        """Rest if this thread has worked for WORK_SECONDS and agents' calls run or ran recently."""
        worked = time.thread_time() - self._thread.work_start
        if worked >= WORK_SECONDS:
            self._add_rest(worked)
            self._sleep_if_due()
            self._thread.work_start = time.thread_time()

    def _add_rest(self, worked: float) -> None:
        """Extend the rest of all low-priority requests after `worked` seconds of work.

        The rest is REST_FACTOR times as long as the work, and never ends later than
        MAX_REST_SECONDS from now.
        """
        with self._lock:
            now = time.monotonic()
            rest_until = max(now, self._rest_until) + REST_FACTOR * worked
            self._rest_until = min(rest_until, now + MAX_REST_SECONDS)

    def _sleep_if_due(self) -> None:
        """Sleep while low-priority requests must rest and an agent's call runs or ran recently."""
        while (seconds := self._rest_until - time.monotonic()) > 0 and self._has_recent_calls():
            time.sleep(min(seconds, RECENT_SECONDS))

    def _has_recent_calls(self) -> bool:
        """Return whether an agent's call runs, or ended within RECENT_SECONDS."""
        return self._running_calls > 0 or time.monotonic() - self._last_call_end < RECENT_SECONDS


class ProviderThreads:
    """Threads that wait for models and embedders.

    Requests that need the same answer at the same time share one call of the provider.
    """

    def __init__(self, max_threads: int, begin: Callable[[], None]) -> None:
        """Create the pool of threads. Each thread first runs `begin`."""
        self._threads = ThreadPoolExecutor(max_threads, "provider", initializer=begin)
        self._lock = threading.Lock()
        self._answers: dict[Hashable, Future[Answer]] = {}
        self._request_counts: Counter[Hashable] = Counter()
        """The number of requests that need each answer."""

    def close(self) -> None:
        """Wait for the calls that have begun, and cancel the others."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def ask(self, key: Hashable, call: PendingProviderCall) -> Future[Answer]:
        """Return a future for the answer of a provider's call. Calls with one key share it.

        Start the call if no call with this key has been started, or if it failed. Each caller must
        call `release` when it no longer needs the answer.
        """
        with self._lock:
            self._request_counts[key] += 1
            current = self._answers.get(key)
            if current is not None and not _has_failed(current):
                return current
            context = contextvars.copy_context()
            answer = self._answers[key] = self._threads.submit(context.run, call.answer)
            return answer

    def release(self, key: Hashable) -> None:
        """Count one request less that needs the answer. If none is left, forget the answer."""
        with self._lock:
            self._request_counts[key] -= 1
            if not self._request_counts[key]:
                del self._request_counts[key], self._answers[key]


def _has_failed(answer: Future[Answer]) -> bool:
    """Return whether a call has ended without an answer."""
    return answer.done() and (answer.cancelled() or answer.result().failure is not None)


def run_in_thread(threads: Executor, task: str, work: Callable[[SendReply], Any]) -> Awaitable[Any]:
    """Run `work` in a thread, and return its reply for the client.

    The reply is the result of `work`, or what `work` sends by its argument before it ends. If
    `work` fails, log that as a failure of `task`, and raise the error for the client. A failure
    after an early reply is only logged.
    """
    reply: Future[Any] = Future()
    reply.set_running_or_notify_cancel()  # From now on, a cancelled request cannot cancel it.

    def run() -> None:
        """Do the work, and set the reply unless `work` has sent it before its end."""
        try:
            result = work(reply.set_result)
        except BaseException as failure:
            if reply.done():
                refusal(failure, f"{task}, after its answer,")  # This only logs the failure.
            else:
                reply.set_exception(refusal(failure, task))
        else:
            if not reply.done():
                reply.set_result(result)

    threads.submit(contextvars.copy_context().run, run)
    return asyncio.wrap_future(reply)
