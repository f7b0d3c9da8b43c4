"""`contextrender proxy --workers 2`: agents continue when one of the processes is killed."""

import os
import signal
import subprocess
import uuid
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from contextrender_bridge import Credentials

from tests.proxy.agents import AGENTS, finding
from tests.proxy.conftest import Setup
from tests.support.command import PROCESS
from tests.support.programs import free_port, serving_program
from tests.support.scripted_model import Model, serving
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

OPTIONS = ["--workers", "2", "--budget", "600", "--policy", "contextrender"]
PATIENCE = 120.0


def workers(process: "subprocess.Popen[bytes]") -> set[int]:
    parent = process.pid
    return {int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()}


def test_agents_continue_when_a_worker_is_killed(
    credentials: Credentials, shared_setup: Setup, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        model, port = Model(), free_port()
        upstream = stack.enter_context(serving(model, lifespan="off"))
        environment = {
            **os.environ,
            "CONTEXTRENDER_URL": credentials.url,
            "CONTEXTRENDER_TOKEN": credentials.token,
            "CONTEXTRENDER_RENDER_TIMEOUT": "60",
            "CONTEXTRENDER_UPSTREAM": f"{upstream}/v1",
            "CONTEXTRENDER_ANTHROPIC_UPSTREAM": f"{upstream}/v1",
        }
        url = f"http://127.0.0.1:{port}"
        command = [*PROCESS, "proxy", "--port", port, *OPTIONS]
        status = f"{url}/contextrender/status"
        proxy = stack.enter_context(serving_program(command, environment, status, tmp_path))

        def connect() -> Setup:
            http = stack.enter_context(httpx.Client(base_url=url, timeout=PATIENCE))
            return Setup(url, model, http, shared_setup.service, shared_setup.proxy)

        names = [f"run-{uuid.uuid4().hex[:8]}" for _ in range(4)]
        agents = [
            kind(connect(), name, streams=number % 2 == 0)
            for number, (kind, name) in enumerate(zip(AGENTS, names, strict=True))
        ]
        for agent in agents:
            results = agent.results(agent.run(8)[-1][agent.key])
            assert any(finding(6) in result for result in results)
            assert len(results) < 7
            assert "x-contextrender-fail-open" not in agent.response.headers

        before = workers(proxy)
        assert len(before) == 2
        os.kill(min(before), signal.SIGKILL)
        wait_until(lambda: min(before) not in workers(proxy))

        for agent in agents:  # agents of the killed worker reconnect
            agent.setup = connect()
            results = agent.results(agent.run(1)[-1][agent.key])
            assert any(finding(7) in result for result in results)
            assert "x-contextrender-fail-open" not in agent.response.headers
        wait_until(lambda: len(workers(proxy)) == 2 and min(before) not in workers(proxy))
        for agent, name in zip(agents, names, strict=True):
            agent.run(1)
            assert "x-contextrender-fail-open" not in agent.response.headers
            assert agent.setup.service.inspect_session(name)["session"]["results"] == 9
        proxy.terminate()
        assert proxy.wait(PATIENCE) == 0
