"""LiteLLM's own compression guardrail against these endpoints.

It came after the version that the service is locked to: TEST_LITELLM names the Python of a virtual
environment with a newer `litellm[proxy]` (1.106.2 was run).
"""

import json
import os
import shutil
import subprocess
from typing import Any

import pytest

from tests.proxy.agents import ChatAgent, finding
from tests.proxy.conftest import Setup

PYTHON = shutil.which(os.environ.get("TEST_LITELLM", ""))

PROGRAM = """
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


@pytest.mark.skipif(PYTHON is None, reason="TEST_LITELLM names no Python with a newer LiteLLM")
def test_the_guardrail_compresses_and_retrieves(setup: Setup) -> None:
    agent = ChatAgent(setup)
    for number in range(12):
        agent.take(number, number)
    messages: list[Any] = agent.items
    assert PYTHON is not None
    ran = subprocess.run(
        [PYTHON, "-c", PROGRAM, setup.url],
        input=json.dumps(messages),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONPATH": ""},
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    told = json.loads(ran.stdout.splitlines()[-1])
    left = told["made"]["structured_messages"]
    assert [message["role"] for message in left] == [message["role"] for message in messages]
    short = [m for m in left if m["role"] == "tool" and "is left out here" in m["content"]]
    assert len(short) > 3
    assert left[-1] == messages[-1]
    assert finding(0) in told["found"]
    assert told["made"]["tools"][-1]["function"]["name"] == "headroom_retrieve"
