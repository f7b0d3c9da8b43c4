"""A real service, and histories for it."""

import json

import pytest
from contextrender_bridge import Credentials
from contextrender_bridge.base.wire import Json


@pytest.fixture(scope="session")
def service(credentials: Credentials) -> Credentials:
    return credentials


@pytest.fixture
def session(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def history(results: int = 3) -> list[Json]:
    messages: list[Json] = [{"role": "user", "content": "Which hosts are slow?"}]
    for number in range(results):
        body = {"name": "get_host", "arguments": json.dumps({"host": f"host_{number}_A"})}
        call = {"id": f"c{number}", "type": "function", "function": body}
        text = f"host_{number + 1}_A is next. " + "All is well here. " * 60
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": text},
        ]
    return messages
