"""Models of other providers, through the real LiteLLM."""

import base64
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from contextrender_bridge import Credentials

from tests.proxy.agents import ChatAgent, finding
from tests.proxy.conftest import Setup, Start
from tests.support.scripted_model import Model, call, chat, chat_events, serving, stream, whole
from tests.support.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("litellm") is None, reason="LiteLLM is not installed"
    ),
]

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
        options = [
            "--port",
            "0",
            "--budget",
            "600",
            "--policy",
            "contextrender",
            "--upstream",
            "http://127.0.0.1:9/v1",
        ]
        options += ["--providers", "openai,anthropic/claude-1"]
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
    with httpx.Client(base_url=url, timeout=60) as http:

        def answers() -> bool:
            with suppress(httpx.TransportError):
                return bool(http.get("/contextrender/status").json()["status"] == "ok")
            return False

        until(answers)
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


@pytest.mark.parametrize(
    "model",
    [
        "oobabooga/http://127.0.0.1:9",
        "openai/http://127.0.0.1:9/v1",
        "anthropic/claude-2",
        "nobody/m",
        "gpt-5",
        "",
    ],
)
def test_only_what_is_listed(setup: Setup, model: str) -> None:
    got = setup.post("/v1/chat/completions", {**BODY, "model": f"litellm/{model}"})
    assert (got.status_code, got.json()["error"]["code"]) == (403, "model_not_listed")


PIXEL = base64.b64encode(bytes(64)).decode()
FETCHED = "http://169.254.169.254/x.png"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": FETCHED}},
        {"type": "image_url", "image_url": FETCHED},
        {"type": "image_url", "image_url": {"url": "/etc/passwd"}},
        {"type": "image_url", "image_url": {"url": "gs://bucket/x.png"}},
        {"type": "image_url", "image_url": {"url": f"data:,{PIXEL}", "format": FETCHED}},
        {"type": "file", "file": {"file_id": FETCHED}},
        {"type": "file", "file": {"file_data": FETCHED}},
        {"type": "input_audio", "input_audio": {"data": FETCHED, "format": "wav"}},
        {"type": "video_url", "video_url": {"url": FETCHED}},
        {"type": "document", "source": {"type": "url", "url": FETCHED}},
        {"type": "unheard_of", "at": FETCHED},
        {"at": [FETCHED]},
        {"type": [], "text": "a"},
        [FETCHED],
    ],
)
def test_nothing_is_fetched_on_a_callers_word(setup: Setup, part: Any) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "Look:"}, part]}]
    got = setup.post("/v1/chat/completions", {**BODY, "messages": messages})
    assert (got.status_code, got.json()["error"]["code"]) == (422, "not_inline")
    for extra in ({"images": [part]}, {"api_base": "http://127.0.0.1:9"}):
        messages = [{"role": "user", "content": "Look.", **extra}]
        got = setup.post("/v1/chat/completions", {**BODY, "messages": messages})
        assert got.status_code == 422
    assert setup.model.asked == []


@pytest.mark.parametrize(
    "tools", [[{"type": "mcp", "server_url": "http://127.0.0.1:9"}], "x", [5], {"a": 1}]
)
def test_no_tool_names_an_address(setup: Setup, tools: Any) -> None:
    got = setup.post("/v1/chat/completions", {**BODY, "tools": tools})
    assert (got.status_code, got.json()["error"]["code"]) == (422, "not_inline")


def test_histories_are_made_to_fit(setup: Setup) -> None:
    agent = ChatAgent(setup, uuid.uuid4().hex)
    for number in range(9):
        agent.take(number, number)
    setup.model.script = [whole(chat("ok"))]
    setup.post(agent.prefix + agent.path, {"model": "litellm/openai/m", "messages": agent.items})
    sent = setup.model.asked[0].json["messages"]
    assert 0 < len(agent.results(sent)) < 9
    assert finding(0) not in agent.results(sent)


def test_the_keys_are_not_for_strangers(start: Start) -> None:
    setup = start(own_token=False, providers=frozenset({"openai"}))
    got = setup.post("/v1/chat/completions", BODY)
    assert (got.status_code, got.json()["error"]["code"]) == (403, "not_allowed")
