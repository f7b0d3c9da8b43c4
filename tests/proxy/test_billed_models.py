"""Usage is recorded with the call that caused it, also if several models receive one history."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json

from tests.proxy.conftest import Setup
from tests.support.scripted_model import ModelRequest, chat, json_reply
from tests.support.transcripts import agent_run, user
from tests.support.waiting import wait_until

RUN = agent_run(4)
CONTINUED_RUN = [*RUN, {"role": "assistant", "content": "Done."}, user("And now?")]
PROMPTS = {"first": 1000, "second": 2000}


class HeldModels:
    """The models of `PROMPTS`, each of which answers once it is released."""

    def __init__(self, setup: Setup, session: str) -> None:
        self._setup, self._session = setup, session
        self._pool = ThreadPoolExecutor(4)
        self._released = {model: threading.Event() for model in PROMPTS}
        self._responses: dict[str, Any] = {}
        setup.model.answer = self._answer

    def _answer(self, request: ModelRequest) -> Any:
        model = request.json["model"]
        assert self._released[model].wait(100)
        # The provider's name of the model differs from the request's.
        usage = {"prompt_tokens": PROMPTS[model], "completion_tokens": 1}
        return json_reply({**chat("Done."), "model": f"{model}-2026", "usage": usage})

    def send(self, model: str, messages: list[Json] = RUN) -> None:
        """Send a request, and wait until the model has it."""
        count = len(self._setup.model.requests)
        body = {"model": model, "messages": messages}
        path, headers = "/v1/chat/completions", {"x_contextrender_session": self._session}
        self._responses[model] = self._pool.submit(self._setup.post, path, body, **headers)
        wait_until(lambda: len(self._setup.model.requests) > count)

    def release(self, model: str) -> None:
        """Let a model answer, and wait for its answer."""
        self._released[model].set()
        assert self._responses[model].result().status_code == 200


def usage_by_model(setup: Setup) -> dict[str, tuple[int, int]]:
    """Return the calls with usage and the prompt tokens of each model."""
    rows = setup.service.call("total_savings", {})["rows"]
    return {row["model"]: (row["calls_with_usage"], row["prompt"]) for row in rows}


@pytest.mark.parametrize("order", [["first", "second"], ["second", "first"]])
@pytest.mark.parametrize("is_answered", [False, True])
def test_calls_at_the_same_time_keep_their_models(
    setup: Setup, order: list[str], is_answered: bool
) -> None:
    session = uuid.uuid4().hex
    before = usage_by_model(setup)
    models = HeldModels(setup, session)
    models.send("first")
    models.send("second")
    for model in order:
        models.release(model)
    if is_answered:
        models.send("first", CONTINUED_RUN)
        models.release("first")

    def added_usage() -> dict[str, tuple[int, int]]:
        return {
            model: (calls - before.get(model, (0, 0))[0], tokens - before.get(model, (0, 0))[1])
            for model, (calls, tokens) in usage_by_model(setup).items()
            if model.endswith("-2026")
        }

    count = 2 if is_answered else 1
    expected = {"first-2026": (count, 1000 * count), "second-2026": (1, 2000)}
    wait_until(lambda: sum(calls for calls, _ in added_usage().values()) == count + 1)
    assert added_usage() == expected
