"""The threads that calls run in: agents' calls, looks back, and questions to models and embedders.

A process of Python computes one thing at a time, and a page of the console can take seconds of it.
Beside agents' calls looking back therefore works only a tenth of the time: looks stop every few
milliseconds, and while calls of agents are under way, or were a moment ago, all looks together rest
nine times as long as they worked. With no agent at work none rests.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
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
from contextrender_bridge.runtime.request import Tell
from contextrender_bridge.server.accounts.callers import Caller
from contextrender_bridge.server.http.bodies import refusal
from contextrender_bridge.server.process.process_resources import OneProcessor

LOOKING_THREADS: Final = 4
"""They wait for each other, never an agent's call for them."""

WORK_SECONDS: Final = 0.002
RESTS: Final = 9
LONGEST_REST: Final = 2.0
"""Seconds; what cannot be interrupted is not made up for beyond this."""
RECENT_SECONDS: Final = 0.05


type Work = Callable[[Caller, ProviderAnswers, Tell], Any]
"""Makes a reply, or returns what it waits for and is run again with that among the answers."""


class Threads:
    """The thread pools of one service."""

    def __init__(self, settings: Settings, processor: OneProcessor) -> None:
        """Run agents' calls on one processor, and what waits or looks back on any."""
        self._calls = ThreadPoolExecutor(settings.threads, "walker", initializer=processor.join)
        self._looks = ThreadPoolExecutor(LOOKING_THREADS, "look", initializer=processor.leave)
        self._providers = Providers(settings.provider_threads, processor.leave)
        self._pace = Pace()

    def close(self) -> None:
        """Finish what is under way."""
        self._providers.close()
        self._calls.shutdown(wait=True)
        self._looks.shutdown(wait=True)

    async def answer(
        self, task: str, admit: Callable[[], Caller], work: Work, *, looks: bool
    ) -> Any:
        """Return the result of `work` for the caller whom `admit` lets in once.

        Answers of providers are shared with other requests until `work` has used them.
        """
        answers, callers = ProviderAnswers(), list[Caller]()
        keys: list[Hashable] = []

        def paced(tell: Tell) -> Any:
            if not callers:
                callers.append(admit())
            with self._pace.look() if looks else self._pace.agent():
                return work(callers[0], answers, tell)

        threads = self._looks if looks else self._calls
        try:
            while isinstance(result := await in_thread(threads, task, paced), PendingProviderCall):
                keys.append((callers[0].root, result.key))
                answer = asyncio.wrap_future(self._providers.need(keys[-1], result))
                # Who leaves does not end it for others.
                answers.put(result, await asyncio.shield(answer))
        finally:
            for key in keys:
                self._providers.leave(key)
        return result


class Pace:
    """Counts agents' calls under way, and holds looks back beside them; safe between threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._under_way = 0
        self._latest = float("-inf")
        self._rest_until = 0.0
        self._mine = threading.local()

    @contextmanager
    def agent(self) -> Iterator[None]:
        """Count an agent's call for as long as the block takes."""
        with self._guard:
            self._under_way += 1
        try:
            yield
        finally:
            with self._guard:
                self._under_way -= 1
                self._latest = time.monotonic()

    @contextmanager
    def look(self) -> Iterator[None]:
        """Run a look back, which rests at its start and wherever it may pause."""
        self._rest_now()
        self._mine.begun = time.thread_time()
        try:
            with pausing(self.pause):
                yield
        finally:
            self._owe(time.thread_time() - self._mine.begun)

    def pause(self) -> None:
        """Rest if this thread's look has worked for a while and agents are at work."""
        worked = time.thread_time() - self._mine.begun
        if worked >= WORK_SECONDS:
            self._owe(worked)
            self._rest_now()
            self._mine.begun = time.thread_time()

    def _owe(self, worked: float) -> None:
        with self._guard:
            now = time.monotonic()
            rest_until = max(now, self._rest_until) + RESTS * worked
            self._rest_until = min(rest_until, now + LONGEST_REST)

    def _rest_now(self) -> None:
        while (seconds := self._rest_until - time.monotonic()) > 0 and self._agents_work():
            time.sleep(min(seconds, RECENT_SECONDS))

    def _agents_work(self) -> bool:
        return self._under_way > 0 or time.monotonic() - self._latest < RECENT_SECONDS


class Providers:
    """Threads that wait for models and embedders, and for nothing else.

    A user's question is asked once while any request needs its answer.
    """

    def __init__(self, max_threads: int, begin: Callable[[], None]) -> None:
        """Begin without questions; each thread calls `begin` first."""
        self._threads = ThreadPoolExecutor(max_threads, "provider", initializer=begin)
        self._guard = threading.Lock()
        self._answers: dict[Hashable, Future[Answer]] = {}
        self._needed: Counter[Hashable] = Counter()

    def close(self) -> None:
        """Wait for the questions that were asked."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def need(self, key: Hashable, question: PendingProviderCall) -> Future[Answer]:
        """Return the answer to come; it is kept until everyone who needs it calls `leave`."""
        with self._guard:
            self._needed[key] += 1
            current = self._answers.get(key)
            if current is not None and not _failed(current):
                return current
            here = contextvars.copy_context()
            answer = self._answers[key] = self._threads.submit(here.run, question.answer)
            return answer

    def leave(self, key: Hashable) -> None:
        """Say that one request fewer needs the answer."""
        with self._guard:
            self._needed[key] -= 1
            if not self._needed[key]:
                del self._needed[key], self._answers[key]


def _failed(answer: Future[Answer]) -> bool:
    return answer.done() and (answer.cancelled() or answer.result().failure is not None)


async def in_thread(threads: Executor, task: str, work: Callable[[Tell], Any]) -> Any:
    """Return what `work` returns, or tells before it ends; the refusing error if it fails."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def tell(reply: object) -> None:
        loop.call_soon_threadsafe(_settle, answer, reply)

    def end(future: asyncio.Future[Any]) -> None:
        failure = future.exception()
        if failure is None:
            _settle(answer, future.result())
        elif answer.done():
            refusal(failure, f"{task}, after its answer,")
        else:
            answer.set_exception(failure)

    here = contextvars.copy_context()
    loop.run_in_executor(threads, here.run, work, tell).add_done_callback(end)
    try:
        return await answer
    except Exception as failure:
        refused = refusal(failure, task)
        # Else what was parsed stays until the collector finds the circle of frame and exception.
        traceback.clear_frames(failure.__traceback__)
        return refused


def _settle(answer: asyncio.Future[Any], result: object) -> None:
    if not answer.done():
        answer.set_result(result)
