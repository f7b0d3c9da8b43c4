"""A real service and histories for it."""

import json
from collections.abc import Iterator

import pytest
from contextrender_bridge import ContextRender, Credentials
from contextrender_bridge.base.wire import Json

from tests.support.transcripts import step, user


@pytest.fixture
def session(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


@pytest.fixture
def client(credentials: Credentials) -> Iterator[ContextRender]:
    with ContextRender(credentials.url, credentials.token) as client:
        yield client


def history(results: int = 3) -> list[Json]:
    messages = [user("Which hosts are slow?")]
    for number in range(results):
        text = f"host_{number + 1}_A is next. " + "All is well here. " * 60
        arguments = json.dumps({"host": f"host_{number}_A"})
        messages += step(f"c{number}", "get_host", arguments, text)
    return messages
