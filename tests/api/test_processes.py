"""Several processes over one store, each request to a random one: as if there were one."""

import json
import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from contextrender_bridge.base.wire import Json

from tests.api.client import Api, Conversation
from tests.api.conftest import Service
from tests.api.servers import Servers
from tests.api.transcripts import agent_run
from tests.support.provider_double import ProviderDouble, chat_reply, provider

pytestmark = pytest.mark.slow

RUN = agent_run(24, lines=5)
CALLS = [at for at, message in enumerate(RUN) if message["role"] == "assistant"]
MODEL_POLICIES = ("compact", "recency_summary")


@pytest.fixture(scope="module")
def model() -> Iterator[ProviderDouble]:
    """A model whose summaries follow from what it was sent alone."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        said = f"State: {len(json.dumps(body['messages']))} letters were sent."
        notes = {
            "files_read": [],
            "key_observations": [said],
            "commands_run": [],
            "decisions": [],
            "unresolved_questions": [],
        }
        reply = chat_reply(notes if "response_format" in body else said)
        return 200, reply | {"usage": {"prompt_tokens": 50, "completion_tokens": 5}}

    with provider(answer) as double:
        yield double


@pytest.fixture(scope="module")
def processes(service: Service, servers: Servers, model: ProviderDouble) -> Iterator[list[str]]:
    """The addresses of three servers over the store of `service`."""
    environment = {
        "CONTEXTRENDER_MODEL": "openai/scripted",
        "OPENAI_API_BASE": model.url,
        "OPENAI_API_KEY": "scripted",
    }
    with ExitStack() as stack:
        running = [servers.running(service.data, environment) for _ in range(3)]
        yield [stack.enter_context(each).url for each in running]


@pytest.fixture
def everywhere(service: Service, processes: list[str]) -> Iterator[list[Api]]:
    """One new user at each server."""
    token = service.new_user().api.token
    with ExitStack() as stack:
        https = [stack.enter_context(httpx.Client(base_url=url, timeout=60)) for url in processes]
        yield [Api(http, token) for http in https]


@pytest.fixture
def alone(service: Service, processes: list[str]) -> Iterator[Api]:
    """Another user, at one of them only."""
    with httpx.Client(base_url=processes[0], timeout=60) as http:
        yield Api(http, service.new_user().api.token)


def talked(apis: list[Api], policy: str) -> list[Json]:
    """The replies to a run's calls, each from any of these servers."""
    rng = random.Random(policy)
    talk = Conversation(apis[0], "s")
    replies = []
    for size in CALLS:
        talk.api = rng.choice(apis)
        replies.append(talk.send("render", RUN[:size], budget=900, policy=policy))
    return replies


@pytest.mark.parametrize("policy", MODEL_POLICIES)
def test_summaries_are_made_once(
    everywhere: list[Api], alone: Api, model: ProviderDouble, policy: str
) -> None:
    before = len(model.requests)
    expected = talked([alone], policy)
    made = len(model.requests) - before
    assert made > 0
    assert talked(everywhere, policy) == expected
    assert len(model.requests) - before == 2 * made
