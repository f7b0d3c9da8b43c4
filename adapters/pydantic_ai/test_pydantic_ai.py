"""Pydantic AI with the example's agent: results are omitted from its requests and restored."""

import pytest

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import run
from adapters.testing.installs import ADAPTERS, environment, python_of

MODELS = {"responses": "openai-responses:m", "chat/completions": "openai-chat:m"}


@pytest.mark.parametrize("api", MODELS)
def test_example_omits_and_restores_results(api: str, loopback: Loopback) -> None:
    environment = loopback.environment(MODEL=MODELS[api])
    script = hosts.run_example("pydantic_ai", loopback.model, environment)
    assert {request.path for request in loopback.model.requests} == {f"/v1/{api}"}
    loopback.check(script)

    # The first run ends without the early finding; the second one restores it from the passed
    # history.
    marks_by_request = script.marks_in_requests(hosts.MARKS)
    first, second = (
        marks_by_request[: len(hosts.FIRST) + 1],
        marks_by_request[len(hosts.FIRST) + 1 :],
    )
    assert hosts.EARLY not in first[-1]
    assert any(hosts.EARLY in marks for marks in second)


def test_every_message_part_is_converted() -> None:
    run([python_of("pydantic_ai"), ADAPTERS / "pydantic_ai" / "parts.py"], environment())
