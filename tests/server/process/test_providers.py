"""The threads that wait for models and embedders."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from contextrender_bridge.server.process.providers import Providers, Questions

from engine.costs import NOTHING_USED, Usage
from engine.models import summaries
from engine.models.answers import ANSWERS, Answers, Waiting, answer_of
from engine.models.summaries import SummaryFailed, Way


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


@pytest.mark.parametrize("fails", [False, True])
def test_of_those_that_share_an_answer_the_first_pays(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = Usage(prompt=5, output=1)

    def summarise(*_: object) -> tuple[str, Usage]:
        if fails:
            raise SummaryFailed("It refused.", tokens)
        return "A summary.", tokens

    def told(answers: Answers) -> Usage:
        here = ANSWERS.set(answers)
        try:
            return summaries._write(Way("compact", "model", 100), "", "text")[1]
        except SummaryFailed as failure:
            return failure.used
        finally:
            ANSWERS.reset(here)

    monkeypatch.setattr(summaries, "writer", lambda _: SimpleNamespace(summarise=summarise))
    first, second = Answers(), Answers()
    with pytest.raises(Waiting) as waiting:
        told(first)
    answer = waiting.value.answer()
    for one in (first, second):
        one.put(waiting.value, answer)
    # Who runs again is told the same.
    assert [told(one) for one in (second, first, second)] == [tokens, NOTHING_USED, tokens]
