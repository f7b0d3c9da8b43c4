"""The threads that wait for models and embedders."""

import asyncio
import threading

import pytest
from contextrender_bridge.server.providers import Providers

from engine.models.answers import ANSWERS, Answers, Waiting, answer_of


def test_the_same_question_meanwhile_is_asked_once() -> None:
    opened, asked = threading.Event(), []

    def ask() -> int:
        asked.append(1)
        opened.wait(60)
        return 7

    async def run() -> list[int]:
        providers = Providers(4)
        answers = [Answers() for _ in range(3)]
        waiting = [Waiting("key", ask) for _ in answers]
        users = ["ann", "ann", "bob"]
        asking = [
            asyncio.ensure_future(providers.ask(*one))
            for one in zip(users, waiting, answers, strict=True)
        ]
        await asyncio.sleep(0)
        asking[0].cancel()  # whoever came with it is not cancelled
        opened.set()
        await asyncio.wait(asking)
        providers.close()
        return [found.get() for one in answers if (found := one.take("key")) is not None]

    assert asyncio.run(run()) == [7, 7]
    assert len(asked) == 2


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
