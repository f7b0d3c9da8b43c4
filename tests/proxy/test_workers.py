"""`contextrender proxy --workers 2`: real processes, one of them killed, and agents that go on."""

import os
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from contextrender_bridge import Credentials

from tests.proxy.agents import AGENTS, finding
from tests.proxy.conftest import Setup
from tests.support.command import PROCESS
from tests.support.scripted_model import Model, serving
from tests.support.waiting import until

pytestmark = pytest.mark.slow

OPTIONS = ["--port", "0", "--workers", "2", "--budget", "600", "--policy", "contextrender"]
PATIENCE = 120.0


@dataclass
class Running:
    """The command, and what agents need to talk to it."""

    process: subprocess.Popen[str]
    url: str
    model: Model

    def workers(self) -> set[int]:
        own = self.process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        return {int(pid) for pid in children}


@pytest.fixture
def proxy(credentials: Credentials) -> Iterator[Running]:
    with ExitStack() as running:
        model = Model()
        upstream = running.enter_context(serving(model, lifespan="off"))
        environment = {
            **os.environ,
            "CONTEXTRENDER_URL": credentials.url,
            "CONTEXTRENDER_TOKEN": credentials.token,
            "CONTEXTRENDER_DEADLINE": "60",
        }
        upstreams = [f"--upstream={upstream}/v1", f"--anthropic-upstream={upstream}/v1"]
        process = running.enter_context(
            subprocess.Popen(
                [*PROCESS, "proxy", *OPTIONS, *upstreams],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        try:
            assert process.stdout is not None
            found = re.search(r"at (http://127.0.0.1:\d+)/v1 ", process.stdout.readline())
            assert found
            yield Running(process, found[1], model)
            process.terminate()
            assert process.wait(timeout=PATIENCE) == 0
        finally:
            process.kill()


def test_agents_go_on_when_a_worker_is_killed(proxy: Running, usual: Setup) -> None:
    with ExitStack() as open_ones:

        def connected() -> Setup:
            http = open_ones.enter_context(httpx.Client(base_url=proxy.url, timeout=PATIENCE))
            return Setup(proxy.url, proxy.model, http, usual.service, usual.proxy)

        names = [f"run-{uuid.uuid4().hex[:8]}" for _ in range(4)]
        agents = [
            kind(connected(), name, streams=number % 2 == 0)
            for number, (kind, name) in enumerate(zip(AGENTS, names, strict=True))
        ]
        for agent in agents:
            shown = agent.results(agent.run(8)[-1][agent.key])
            assert any(finding(6) in result for result in shown)
            assert len(shown) < 7
            assert "x-contextrender-fail-open" not in agent.got.headers

        before = proxy.workers()
        assert len(before) == 2
        os.kill(min(before), signal.SIGKILL)
        until(lambda: min(before) not in proxy.workers())

        for agent in agents:  # those of the worker that is gone connect anew
            agent.setup = connected()
            shown = agent.results(agent.run(1)[-1][agent.key])
            assert any(finding(7) in result for result in shown)
            assert "x-contextrender-fail-open" not in agent.got.headers
        until(lambda: len(proxy.workers()) == 2 and min(before) not in proxy.workers())
        for agent, name in zip(agents, names, strict=True):
            agent.run(1)
            assert "x-contextrender-fail-open" not in agent.got.headers
            told = agent.setup.service.inspect_session(name)["session"]
            assert told["results"] == 9
