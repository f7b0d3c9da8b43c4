"""The OpenAI Agents SDK itself, with the example's agent: results leave its calls and come back."""

import pytest

from adapters.conftest import Loopback
from adapters.testing import hosts

APIS = {"responses": {}, "chat/completions": {"OPENAI_API": "chat_completions"}}


@pytest.mark.parametrize("api", APIS)
def test_the_example(api: str, loopback: Loopback) -> None:
    environment = loopback.environment(OPENAI_AGENTS_DISABLE_TRACING="1", **APIS[api])
    script = hosts.run_example("openai_agents", loopback.model, environment)
    assert {asked.path for asked in loopback.model.asked} == {f"/v1/{api}"}
    loopback.check(script)
