"""Memory of a service after its first start, and of each program after a large request."""

import os
import subprocess
import sys
import time
import uuid
from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.credentials import load_credentials

from tests.server.servers import BIN, running_server
from tests.support.programs import free_port, serving_program
from tests.support.scripted_model import Model, chat, json_reply, serving
from tests.support.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say"),
]
MEGABYTE = 2**20
AGENT = """
import os, pathlib, sys, time
path = pathlib.Path(sys.argv[1])
path.with_suffix(".new").write_text(os.environ["OPENAI_BASE_URL"])
path.with_suffix(".new").rename(path)
time.sleep(600)
"""
"""An agent that writes its provider's address to a file, so that the test can make its calls."""


def resident(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def test_first_start_unloads_compiler(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", XDG_CACHE_HOME=str(tmp_path / "cache")) as server:
        (worker,) = children(server.process.pid)
        assert list((tmp_path / "cache").rglob("*.jir")), "it has compiled"
        assert "llvmlite" not in Path(f"/proc/{worker}/maps").read_text()
        assert "numpy" not in Path(f"/proc/{server.process.pid}/maps").read_text()
        memory = resident(worker) + resident(server.process.pid)
        assert memory < 300 * MEGABYTE, memory / MEGABYTE


def large_history() -> list[Json]:
    """Return a history of 53 MB."""
    lines = "".join(f"{number}: a line of the file, item_{number}\n" for number in range(1530))
    call = {"type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages: list[Json] = [{"role": "user", "content": "Read the file."}]
    for number in range(1000):
        calls = [{**call, "id": str(number)}]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        text = f"{number} {lines}"
        messages.append({"role": "tool", "tool_call_id": str(number), "content": text})
    return messages


def check_release(worker: int, before: int) -> None:
    """Wait until memory is at most 1.3 times what it was before; fail after 150 seconds.

    The proxy records a call for 30 seconds at most, and frees memory 30 seconds later.
    """
    largest, deadline = resident(worker), time.monotonic() + 150
    while (memory := resident(worker)) > 1.3 * before and time.monotonic() < deadline:
        time.sleep(0.5)
    sizes = f"{before / MEGABYTE:.0f}, {largest / MEGABYTE:.0f}, {memory / MEGABYTE:.0f} MB"
    assert memory <= 1.3 * before, sizes


def test_memory_of_large_body_is_released(tmp_path: Path) -> None:
    with running_server(tmp_path / "data") as server, server.client() as client:
        (worker,) = children(server.process.pid)
        small = [{"role": "user", "content": "Read the file."}]
        fields = {"session": uuid.uuid4().hex, "messages": small, "budget": 5000}
        assert client.post("/walker/render", json=fields).status_code == 200
        before = resident(worker)
        fields = {"session": uuid.uuid4().hex, "messages": large_history(), "budget": 5000}
        reply = client.post("/walker/render", json=fields, timeout=300)
        assert reply.status_code == 200
        assert len(reply.request.content) > 50 * MEGABYTE
        check_release(worker, before)


def check_release_after_model_call(worker: int, provider_address: str) -> None:
    """Make a small and then a large model call, and check that the worker's memory is released."""

    def post(messages: list[Json]) -> None:
        body = {"model": "m", "messages": messages}
        reply = httpx.post(f"{provider_address}/chat/completions", json=body, timeout=300)
        assert reply.status_code == 200

    post(large_history()[:3])
    before = resident(worker)
    post(large_history())
    check_release(worker, before)


@pytest.mark.parametrize("has_service", [True, False])
def test_memory_of_large_body_is_released_by_the_proxy(tmp_path: Path, has_service: bool) -> None:
    port, model = free_port(), Model()
    place = f"http://127.0.0.1:{port}"
    model.answer = lambda _: json_reply(chat("ok"))
    data = tmp_path / "data"
    with (
        running_server(data) if has_service else nullcontext() as server,
        serving(model, lifespan="off") as provider,
    ):
        environment = {
            **os.environ,
            "CONTEXTRENDER_DATA": str(data),
            "CONTEXTRENDER_URL": server.url if server else "http://127.0.0.1:9",
            "CONTEXTRENDER_TOKEN": load_credentials(data).token if server else "none",
            "CONTEXTRENDER_UPSTREAM": f"{provider}/v1",
        }
        command = [BIN / "contextrender", "proxy", "--port", port]
        probe = f"{place}/contextrender/status"
        with serving_program(command, environment, probe, tmp_path) as process:
            (worker,) = children(process.pid)
            check_release_after_model_call(worker, f"{place}/v1")


def test_memory_of_large_body_is_released_by_wrap(tmp_path: Path) -> None:
    model, address_file = Model(), tmp_path / "address"
    model.answer = lambda _: json_reply(chat("ok"))
    with serving(model, lifespan="off") as provider:
        environment = {
            **os.environ,
            "CONTEXTRENDER_DATA": str(tmp_path / "data"),
            "CONTEXTRENDER_IDLE_TIMEOUT": "2",
            "OPENAI_BASE_URL": f"{provider}/v1",
        }
        command: list[str | Path] = [BIN / "contextrender", "wrap", "--observe"]
        command += ["--base-url-env", "OPENAI_BASE_URL", "--", sys.executable, "-c", AGENT]
        process = subprocess.Popen([*command, address_file], env=environment)
        try:
            until(address_file.exists, alive=lambda: process.poll() is None)
            check_release_after_model_call(process.pid, address_file.read_text())
        finally:
            process.terminate()
            process.wait()


def children(process: int) -> list[int]:
    """Return the ids of a supervisor's workers."""
    place = Path(f"/proc/{process}/task/{process}/children")
    return [int(pid) for pid in place.read_text().split()]
