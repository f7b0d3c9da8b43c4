"""LiteLLM's gateway in front of the proxy, and with the proxy as its guardrail."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from contextrender_bridge.base.wire import Json

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import run
from adapters.testing.installs import environment, python_of
from adapters.testing.plain_agent import next_messages, work
from adapters.testing.scripted import Script
from tests.support.programs import free_port, serving_program

HERE = Path(__file__).parent
KEY = "sk-gateway"

RETRIEVE = """
import asyncio, json, sys
from litellm.proxy.guardrails.guardrail_hooks.headroom.headroom import HeadroomGuardrail

url, messages = sys.argv[1], json.load(sys.stdin)

async def main():
    guard = HeadroomGuardrail(
        api_base=url, api_key=None, guardrail_name="g", event_hook="pre_call", default_on=True,
    )
    asked = {"model": "gpt-4o", "messages": messages, "litellm_call_id": "c1", "metadata": {}}
    made = await guard.apply_guardrail({"structured_messages": messages}, asked, "request")
    issued = [sorted(hashes) for hashes, _ in guard._issued_hashes_by_call_id.values()]
    found = [await guard._call_retrieve(one) for hashes in issued for one in hashes]
    print(json.dumps({"made": made, "found": found}))

asyncio.run(main())
"""


@contextmanager
def gateway(loopback: Loopback, folder: Path, name: str) -> Iterator[str]:
    """Start LiteLLM's gateway with a configuration of this folder; yield its address."""
    config = (HERE / name).read_text().replace("http://127.0.0.1:8700", loopback.proxy)
    config = config.replace("https://api.openai.com/v1", f"{loopback.model.url}/v1")
    (folder / "config.yaml").write_text(config)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [python_of("litellm").with_name("litellm"), "--config", folder / "config.yaml"]
    variables = environment(
        LITELLM_MASTER_KEY=KEY,
        LITELLM_LOCAL_MODEL_COST_MAP="True",
        OPENAI_API_KEY="sk-none",
        HOME=str(folder),
    )
    variables.pop("PYTHONPATH", None)
    words = [*command, "--host", "127.0.0.1", "--port", port]
    with serving_program(words, variables, f"{url}/health/liveliness", folder):
        yield url


@pytest.mark.parametrize("config", ["config.yaml", "guardrail.yaml"])
def test_gateway_renders_calls(loopback: Loopback, tmp_path: Path, config: str) -> None:
    """The agent is a double that keeps its full history."""
    script = Script(loopback.model, hosts.steps())
    with (
        gateway(loopback, tmp_path, config) as url,
        httpx.Client(base_url=url, headers={"authorization": f"Bearer {KEY}"}, timeout=60) as http,
    ):
        work(http)
    assert loopback.failures() == {}
    if config == "config.yaml":
        hosts.check(script)
        (session,) = loopback.sessions()
        hosts.check_turns(session, script.steps)
    else:
        # The guardrail does not send the model's answers, so uses are unknown and nothing is
        # restored.
        marks_by_request = script.marks_in_requests(hosts.MARKS)
        assert all(len(marks) < len(hosts.MARKS) / 2 + 1 for marks in marks_by_request)
        assert hosts.SECOND.stop - 1 in marks_by_request[-1]
    for request in script.requests:
        results = [m for m in request["messages"] if m["role"] == "tool"]
        assert len(results) == sum(len(m.get("tool_calls") or ()) for m in request["messages"])


def test_guardrail_retrieves_omitted_results(loopback: Loopback) -> None:
    """Only the guardrail is called. It stores the ids of omitted results."""
    messages: list[Json] = [{"role": "user", "content": "Find out which hosts are slow."}]
    for number in range(9):
        function = {"name": "look", "arguments": json.dumps({"host": f"host_{number}_X"})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages += next_messages({"content": None, "tool_calls": [call]})
    variables = environment(LITELLM_LOCAL_MODEL_COST_MAP="True")
    command = [python_of("litellm"), "-c", RETRIEVE, loopback.proxy]
    process = run(command, variables, stdin=json.dumps(messages))
    report = json.loads(process.stdout.splitlines()[-1])
    structured_messages = report["made"]["structured_messages"]
    assert [m["role"] for m in structured_messages] == [message["role"] for message in messages]
    omitted_results = [
        m for m in structured_messages if m["role"] == "tool" and "is left out here" in m["content"]
    ]
    assert len(omitted_results) > 3
    assert structured_messages[-1] == messages[-1]
    assert messages[2]["content"] in report["found"]
    assert report["made"]["tools"][-1]["function"]["name"] == "headroom_retrieve"
