"""Threads that wait for models and embedders, and for nothing else."""

import asyncio
import contextvars
import threading
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from engine.models.providers import Answer, Answers, Waiting


class Providers:
    """So many questions at once; the same one of a user's is asked once while anyone needs it."""

    def __init__(self, most: int, begin: Callable[[], None] = lambda: None) -> None:
        """Nothing is asked; each thread calls `begin` first."""
        self._threads = ThreadPoolExecutor(most, "provider", initializer=begin)
        self._guard = threading.Lock()
        self._asked: dict[Hashable, Future[Answer]] = {}
        self._needed: Counter[Hashable] = Counter()

    def close(self) -> None:
        """Waits for the questions that were asked."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def need(self, key: Hashable, waiting: Waiting) -> Future[Answer]:
        """The answer to come; it is kept until everyone who needs it said so by `leave`."""
        with self._guard:
            self._needed[key] += 1
            known = self._asked.get(key)
            if known is not None and not _failed(known):
                return known
            here = contextvars.copy_context()
            asked = self._asked[key] = self._threads.submit(here.run, waiting.answer)
            return asked

    def leave(self, key: Hashable) -> None:
        """One fewer needs the answer."""
        with self._guard:
            self._needed[key] -= 1
            if not self._needed[key]:
                del self._needed[key], self._asked[key]


class Questions:
    """What one request asks, and the answers: kept for others until it has made use of them."""

    def __init__(self, providers: Providers) -> None:
        """Nothing is asked."""
        self.answers = Answers()
        self._providers = providers
        self._keys: list[Hashable] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for key in self._keys:
            self._providers.leave(key)

    async def ask(self, user: str, waiting: Waiting) -> None:
        """Returns once the answer, or why there is none, is among `answers`."""
        key = (user, waiting.key)
        asked = self._providers.need(key, waiting)
        self._keys.append(key)
        # Who leaves does not end it for others.
        self.answers.put(waiting, await asyncio.shield(asyncio.wrap_future(asked)))


def _failed(asked: Future[Answer]) -> bool:
    return asked.done() and (asked.cancelled() or asked.result().failure is not None)
