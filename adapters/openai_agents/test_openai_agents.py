"""The OpenAI Agents SDK with the example's agent: results are omitted from its calls and
restored.
"""

import pytest

from adapters.conftest import Loopback
from adapters.testing import hosts

APIS = {"responses": {}, "chat/completions": {"OPENAI_API": "chat_completions"}}


@pytest.mark.parametrize("api", APIS)
def test_example_omits_and_restores_results(api: str, loopback: Loopback) -> None:
    environment = loopback.environment(OPENAI_AGENTS_DISABLE_TRACING="1", **APIS[api])
    script = hosts.run_example("openai_agents", loopback.model, environment)
    assert {request.path for request in loopback.model.requests} == {f"/v1/{api}"}
    loopback.check(script)
