"""Threads that wait for models and embedders, and for nothing else."""

import asyncio
import contextvars
import threading
from collections.abc import Hashable
from concurrent.futures import Future, ThreadPoolExecutor

from engine.models.answers import Answer, Answers, Waiting


class Providers:
    """So many questions at once; the same one of a user's, asked meanwhile, is asked once."""

    def __init__(self, most: int) -> None:
        """Nothing is asked."""
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="provider")
        self._guard = threading.Lock()
        self._asked: dict[Hashable, Future[Answer]] = {}

    async def ask(self, user: str, waiting: Waiting, answers: Answers) -> None:
        """Returns once the answer, or why there is none, is among `answers`."""
        asked = asyncio.wrap_future(self._asking((user, waiting.key), waiting))
        # Who leaves does not end it for others.
        answers.put(waiting, await asyncio.shield(asked))

    def close(self) -> None:
        """Waits for the questions that were asked."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _asking(self, key: Hashable, waiting: Waiting) -> Future[Answer]:
        with self._guard:
            if (known := self._asked.get(key)) is not None:
                return known
            here = contextvars.copy_context()
            asked = self._asked[key] = self._threads.submit(here.run, waiting.answer)
        asked.add_done_callback(lambda _: self._asked.pop(key, None))
        return asked
