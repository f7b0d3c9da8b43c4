"""Models of other providers, through the real LiteLLM."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from contextrender_bridge import Credentials

from tests.proxy.agents import ChatAgent, finding
from tests.proxy.conftest import Setup, Start
from tests.proxy.doubles import Model, call, chat, chat_events, serving, stream, whole

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("litellm") is None, reason="LiteLLM is not installed"
)

BODY = {"model": "litellm/openai/m", "messages": [{"role": "user", "content": "hello"}]}


RUN = "import sys; from contextrender_bridge.cli import main; sys.exit(main())"


@pytest.fixture(scope="module")
def command(credentials: Credentials) -> Iterator[tuple[str, Model]]:
    """`contextrender proxy`, as users run it; its address, and the model that LiteLLM finds."""
    model = Model()
    with serving(model, lifespan="off") as url:
        environment = {
            **os.environ,
            "CONTEXTRENDER_URL": credentials.url,
            "CONTEXTRENDER_TOKEN": credentials.token,
            "CONTEXTRENDER_DEADLINE": "10",
            "OPENAI_API_BASE": f"{url}/v1",
            "OPENAI_API_KEY": "sk-operators",
        }
        options = ["--port", "0", "--budget", "600", "--upstream", "http://127.0.0.1:9/v1"]
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, "proxy", *options],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"at (http://127.0.0.1:\d+)/v1 ", said)
        assert found
        try:
            yield found[1], model
        finally:
            process.terminate()
            process.stdout.close()
            assert process.wait(timeout=20) in (0, -signal.SIGTERM)


@pytest.fixture
def setup(command: tuple[str, Model], usual: Setup) -> Iterator[Setup]:
    url, model = command
    model.asked, model.script, model.answer = [], [], None
    until = time.monotonic() + 30
    with httpx.Client(base_url=url, timeout=60) as http:
        while True:
            try:
                assert http.get("/contextrender/status").json()["status"] == "ok"
                break
            except httpx.TransportError:
                assert time.monotonic() < until
                time.sleep(0.1)
        yield Setup(url, model, http, usual.service, usual.proxy)


def test_plain(setup: Setup) -> None:
    setup.model.script = [whole(chat("It is fine."))]
    got = setup.post("/v1/chat/completions", {**BODY, "api_base": "http://elsewhere"})
    assert got.json()["choices"][0]["message"]["content"] == "It is fine."
    (asked,) = setup.model.asked
    assert (asked.json["model"], asked.header("authorization")) == ("m", "Bearer sk-operators")


def test_streaming(setup: Setup) -> None:
    setup.model.script = [stream(chat_events("", [call("c1", "look", at="host_A1")]))]
    got = setup.post("/v1/chat/completions", {**BODY, "stream": True})
    lines = [line[6:] for line in got.text.split("\n") if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    deltas: list[Any] = [json.loads(line)["choices"][0]["delta"] for line in lines[:-1]]
    pieces = [piece for delta in deltas for piece in delta.get("tool_calls", ())]
    assert "".join(piece["function"].get("arguments") or "" for piece in pieces) == (
        '{"at": "host_A1"}'
    )


def test_errors(setup: Setup) -> None:
    setup.model.answer = lambda _: whole({"error": {"message": "no"}}, 400)
    assert setup.post("/v1/chat/completions", BODY).status_code == 400
    wrong = setup.post("/v1/chat/completions", {**BODY, "model": "litellm/nobody/m"})
    assert wrong.status_code == 400
    assert wrong.json()["error"]["message"]


def test_histories_are_made_to_fit(setup: Setup) -> None:
    agent = ChatAgent(setup, uuid.uuid4().hex)
    for number in range(9):
        agent.take(number, number)
    setup.model.script = [whole(chat("ok"))]
    setup.post(agent.prefix + agent.path, {"model": "litellm/openai/m", "messages": agent.items})
    sent = setup.model.asked[0].json["messages"]
    assert 0 < len(agent.results(sent)) < 9
    assert finding(0) not in agent.results(sent)


def test_where_the_keys_are_not_for_all_it_is_the_providers_model(start: Start) -> None:
    setup = start(own_token=False)
    setup.proxy._others = False
    setup.model.script = [whole(chat("ok"))]
    setup.post("/v1/chat/completions", BODY)
    assert setup.model.asked[0].json["model"] == "litellm/openai/m"


def test_a_taken_port_is_an_error(command: tuple[str, Model]) -> None:
    port = command[0].rsplit(":", 1)[1]
    environment = {**os.environ, "CONTEXTRENDER_URL": "http://x", "CONTEXTRENDER_TOKEN": "t"}
    ran = subprocess.run(
        [sys.executable, "-c", RUN, "proxy", "--port", port],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in ran.stderr
