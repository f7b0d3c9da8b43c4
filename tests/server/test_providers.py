"""The threads that wait for models and embedders."""

import asyncio
import threading
from typing import Any

import pytest
from contextrender_bridge.server.providers import Providers, Questions

from engine.models.answers import ANSWERS, Answers, Waiting, answer_of


def test_the_same_question_meanwhile_is_asked_once() -> None:
    opened, asked = threading.Event(), []

    def ask() -> int:
        asked.append(1)
        opened.wait(60)
        return 7

    async def run() -> list[int]:
        providers = Providers(4)
        requests = [Questions(providers) for _ in range(3)]
        asking = [
            asyncio.ensure_future(request.ask(user, Waiting("key", ask)))
            for request, user in zip(requests, ["ann", "ann", "bob"], strict=True)
        ]
        await asyncio.sleep(0)
        asking[0].cancel()  # whoever came with it is not cancelled
        opened.set()
        await asyncio.wait(asking)
        providers.close()
        taken = [request.answers.take("key") for request in requests]
        return [found.get() for found in taken if found is not None]

    assert asyncio.run(run()) == [7, 7]
    assert len(asked) == 2


def test_an_answer_is_kept_until_whoever_asked_has_used_it() -> None:
    asked: list[int] = []

    def ask() -> int:
        asked.append(1)
        return len(asked)

    async def run() -> list[int]:
        providers = Providers(4)
        with Questions(providers) as first:
            await first.ask("ann", Waiting("key", ask))
            with Questions(providers) as second:
                await second.ask("ann", Waiting("key", ask))
        with Questions(providers) as third:
            await third.ask("ann", Waiting("key", ask))
        providers.close()
        taken = [request.answers.take("key") for request in (first, second, third)]
        return [found.get() for found in taken if found is not None]

    assert asyncio.run(run()) == [1, 1, 2]


def test_what_failed_is_asked_again() -> None:
    asked: list[int] = []

    def ask() -> int:
        asked.append(1)
        if len(asked) == 1:
            raise LookupError
        return 7

    async def run() -> Any:
        providers = Providers(4)
        with Questions(providers) as first, Questions(providers) as second:
            await first.ask("ann", Waiting("key", ask))
            await second.ask("ann", Waiting("key", ask))
        providers.close()
        found = second.answers.take("key")
        assert found is not None
        return found.get()

    assert asyncio.run(run()) == 7


def test_a_request_finds_what_came_for_it() -> None:
    def fails() -> int:
        raise LookupError

    assert answer_of("key", lambda: 7) == 7, "nobody has set out answers"
    answers = Answers()
    token = ANSWERS.set(answers)
    try:
        assert answer_of("key", lambda: 8, quick=True) == 8
        with pytest.raises(Waiting) as waiting:
            answer_of("key", fails)
        assert not answers.used
        answers.put(waiting.value, waiting.value.answer())
        with pytest.raises(LookupError):
            answer_of("key", lambda: 9)
        assert answers.used
    finally:
        ANSWERS.reset(token)
