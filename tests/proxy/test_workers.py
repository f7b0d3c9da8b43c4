"""`contextrender proxy --workers 2`: real processes, one of them killed, and agents that go on."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from contextrender_bridge import Credentials

from tests.proxy.agents import AGENTS, Agent, ChatAgent, finding
from tests.proxy.conftest import Setup
from tests.support.scripted_model import Model, chat_events, serving, stream
from tests.support.waiting import until

pytestmark = pytest.mark.slow

RUN = "import sys; from contextrender_bridge.cli import main; sys.exit(main())"
OPTIONS = ["--port", "0", "--workers", "2", "--budget", "600", "--policy", "contextrender"]
PATIENCE = 120.0


class Holding:
    """A labelled double: a model whose streams stop behind their first piece until released."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.begun = threading.Semaphore(0)
        self.released = threading.Event()
        self.released.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            await send(message)
            if message.get("body") and not self.released.is_set():
                self.begun.release()
                while not self.released.is_set():
                    await asyncio.sleep(0.01)

        await self.model(scope, receive, sending)


class Running:
    """The command, and what agents need to talk to it."""

    def __init__(self, process: subprocess.Popen[str], url: str, model: Holding) -> None:
        self.process = process
        self.url = url
        self.model = model

    def workers(self) -> set[int]:
        own = self.process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        return {int(pid) for pid in children}


@pytest.fixture
def proxy(credentials: Credentials) -> Iterator[Running]:
    with ExitStack() as running:
        model = Holding(Model())
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
                [sys.executable, "-c", RUN, "proxy", *OPTIONS, *upstreams],
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


def ask_in_stream(agent: Agent) -> bytes:
    """The next call's answer, as it comes."""
    body = {"model": "m", **agent.extra, agent.key: agent.items, "stream": True}
    with agent.setup.http.stream("POST", agent.prefix + agent.path, json=body) as got:
        assert got.status_code == 200
        return b"".join(got.iter_raw())


def ended(asked: Future[bytes]) -> bytes | None:
    """The answer; None where the connection broke."""
    try:
        return asked.result(PATIENCE)
    except httpx.TransportError:
        return None


def test_agents_go_on_when_a_worker_is_killed(proxy: Running, usual: Setup) -> None:
    with ExitStack() as open_ones:

        def connected() -> Setup:
            http = open_ones.enter_context(httpx.Client(base_url=proxy.url, timeout=PATIENCE))
            return Setup(proxy.url, proxy.model.model, http, usual.service, usual.proxy)

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

        streamers = [ChatAgent(connected(), name, streams=True) for name in names]
        before = proxy.workers()
        assert len(before) == 2
        answer = stream(chat_events("It is fine."))
        proxy.model.model.script = [answer] * len(streamers)
        proxy.model.released.clear()
        with ThreadPoolExecutor(len(streamers)) as threads:
            asked = [threads.submit(ask_in_stream, agent) for agent in streamers]
            for _ in asked:
                assert proxy.model.begun.acquire(timeout=PATIENCE)
            os.kill(min(before), signal.SIGKILL)
            until(lambda: min(before) not in proxy.workers())
            proxy.model.released.set()
            answers = [ended(one) for one in asked]
        # Those of one worker broke off, those of the other are whole.
        assert set(answers) <= {None, answer.body}

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
