"""Memory of a service after its first start and after a large request."""

import os
import subprocess
import time
import uuid
from pathlib import Path

import httpx
import pytest
from contextrender_bridge.base.wire import Json

from tests.server.servers import BIN, running_server
from tests.support.programs import free_port, serving_program
from tests.support.scripted_model import Model, chat, json_reply, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say"),
]
MEGABYTE = 2**20


def resident(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def test_first_start_unloads_compiler(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", XDG_CACHE_HOME=str(tmp_path / "cache")) as server:
        (worker,) = children(server.process)
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
    """Wait a minute at most for memory to be at most 1.3 times what it was before."""
    largest, deadline = resident(worker), time.monotonic() + 60
    while (memory := resident(worker)) > 1.3 * before and time.monotonic() < deadline:
        time.sleep(0.5)
    sizes = f"{before / MEGABYTE:.0f}, {largest / MEGABYTE:.0f}, {memory / MEGABYTE:.0f} MB"
    assert memory <= 1.3 * before, sizes


def test_memory_of_large_body_is_released(tmp_path: Path) -> None:
    with running_server(tmp_path / "data") as server, server.client() as client:
        (worker,) = children(server.process)
        small = [{"role": "user", "content": "Read the file."}]
        fields = {"session": uuid.uuid4().hex, "messages": small, "budget": 5000}
        assert client.post("/walker/render", json=fields).status_code == 200
        before = resident(worker)
        fields = {"session": uuid.uuid4().hex, "messages": large_history(), "budget": 5000}
        reply = client.post("/walker/render", json=fields, timeout=300)
        assert reply.status_code == 200
        assert len(reply.request.content) > 50 * MEGABYTE
        check_release(worker, before)


def test_memory_of_large_body_is_released_by_the_proxy(tmp_path: Path) -> None:
    """Without the service, which would render the history for minutes."""
    port, model = free_port(), Model()
    place = f"http://127.0.0.1:{port}"
    model.answer = lambda _: json_reply(chat("ok"))
    with serving(model, lifespan="off") as provider:
        environment = {
            **os.environ,
            "CONTEXTRENDER_DATA": str(tmp_path / "data"),
            "CONTEXTRENDER_URL": "http://127.0.0.1:9",
            "CONTEXTRENDER_TOKEN": "none",
            "CONTEXTRENDER_UPSTREAM": f"{provider}/v1",
        }
        command = [BIN / "contextrender", "proxy", "--port", port]
        probe = f"{place}/contextrender/status"
        with serving_program(command, environment, probe, tmp_path) as process:
            (worker,) = children(process)
            for messages in (large_history()[:3], large_history()):
                before = resident(worker)
                body = {"model": "m", "messages": messages}
                reply = httpx.post(f"{place}/v1/chat/completions", json=body, timeout=300)
                assert reply.status_code == 200
            check_release(worker, before)


def children(process: "subprocess.Popen[bytes]") -> list[int]:
    """Return the ids of a supervisor's workers."""
    place = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in place.read_text().split()]
