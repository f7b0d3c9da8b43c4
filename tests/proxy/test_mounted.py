"""The proxy as a part of the service."""

import re
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from contextrender_bridge import ContextRender, load_credentials

from tests.api.graph import stored_rows
from tests.proxy.agents import TASK, ChatAgent, MessagesAgent, finding
from tests.proxy.conftest import Setup
from tests.server.servers import Server, forked_server
from tests.support.scripted_model import Model, chat, json_reply, serving

KEY = "sk-canary7731canary7731canary"


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Model]]:
    model, data = Model(), tmp_path_factory.mktemp("mounted") / "data"
    settings = {"BUDGET": "600", "POLICY": "contextrender", "REDACT": "keys"}
    with serving(model, lifespan="off") as url:
        settings |= {"UPSTREAM": url, "ANTHROPIC_UPSTREAM": url}
        environment = {f"CONTEXTRENDER_{name}": value for name, value in settings.items()}
        with forked_server(data, **environment) as server:
            yield server, model


@pytest.fixture
def setup(mounted: tuple[Server, Model]) -> Iterator[Setup]:
    server, model = mounted
    credentials = load_credentials(server.data)
    model.requests, model.script = [], []
    token = {"x-contextrender-token": credentials.token}
    proxy: Any = None
    with (
        httpx.Client(base_url=credentials.url, headers=token, timeout=30) as http,
        ContextRender(credentials.url, credentials.token) as service,
    ):
        yield Setup(credentials.url, model, http, service, proxy)


def test_service_renders_model_calls(setup: Setup) -> None:
    session = uuid.uuid4().hex
    agent = MessagesAgent(setup, session, streams=True).add_turns(8)
    (message,) = agent.run(1)
    assert not any("host_1_X answers" in text for text in agent.results(message[agent.key]))
    assert setup.service.inspect_session(session)["session"]["results"] == 8
    assert setup.model.requests[-1].header("x-contextrender-token") is None


def test_calls_without_token_are_refused(setup: Setup) -> None:
    for token in ("", "wrong"):
        response = setup.post("/v1/chat/completions", {"messages": []}, x_contextrender_token=token)
        assert (response.status_code, response.json()["error"]["code"]) == (401, "unauthorized")
    assert setup.http.get("/v1/models", headers={"x-contextrender-token": ""}).status_code == 401
    assert setup.model.requests == []


def test_each_user_has_own_sessions(setup: Setup, mounted: tuple[Server, Model]) -> None:
    other = mounted[0].add_user(f"other-{uuid.uuid4().hex[:8]}")
    session = uuid.uuid4().hex
    mine, other_agent = ChatAgent(setup, session), ChatAgent(setup, session)
    other_agent.headers = {"x-contextrender-token": other}
    mine.run(2)
    other_agent.run(1)
    with ContextRender(setup.url, other) as them:
        assert finding(0) not in str(them.export_session(session))
    assert setup.service.inspect_session(session)["session"]["turns"] == 1


def test_other_paths_are_forwarded(setup: Setup) -> None:
    setup.model.script = [json_reply({"data": []}), json_reply(chat("x"))]
    assert setup.http.get("/v1/models").json() == {"data": []}
    assert setup.http.get("/healthz").json() == {"status": "ok"}
    assert setup.http.get("/nowhere").status_code == 404


def test_secret_reaches_model_and_never_the_store(
    setup: Setup, mounted: tuple[Server, Model]
) -> None:
    session = uuid.uuid4().hex
    agent = ChatAgent(setup, session)
    agent.items[1] = {"role": "user", "content": f"{TASK} Log in with {KEY}."}
    assert KEY in str(agent.add_turns(8).run(1)[0])
    assert "[redacted:keys]" in str(setup.service.export_session(session))
    contents = stored_rows(mounted[0].data)
    assert [row for row in contents if b"[redacted:keys]" in row]
    assert not [row for row in contents if KEY.encode() in row]


def test_fail_open_calls_are_counted_by_reason(setup: Setup) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    for wrong in ({"x_contextrender_budget": "many"}, {"x_contextrender_policy": "nonsense"}):
        setup.post("/v1/chat/completions", body, **wrong)
    page = setup.http.get("/metrics").text
    matches = re.findall(r'^contextrender_fail_open_total\{reason="(.*)"\} (.*)$', page, re.M)
    assert sorted(matches) == [("invalid_budget", "1.0"), ("invalid_policy", "1.0")]
