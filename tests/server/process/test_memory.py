"""Memory of a service after its first start and after a large request."""

import os
import time
import uuid
from pathlib import Path

import pytest
from contextrender_bridge.base.wire import Json

from tests.server.servers import Server, running_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say"),
]
MEGABYTE = 2**20


def resident(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def workers(server: Server) -> list[int]:
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    return [int(pid) for pid in children.read_text().split()]


def test_first_start_unloads_compiler(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", XDG_CACHE_HOME=str(tmp_path / "cache")) as server:
        (worker,) = workers(server)
        assert list((tmp_path / "cache").rglob("*.jir")), "it has compiled"
        assert "llvmlite" not in Path(f"/proc/{worker}/maps").read_text()
        assert "numpy" not in Path(f"/proc/{server.process.pid}/maps").read_text()
        memory = resident(worker) + resident(server.process.pid)
        assert memory < 300 * MEGABYTE, memory / MEGABYTE


def test_memory_of_large_body_is_released(tmp_path: Path) -> None:
    """One minute after a body of 53 MB, memory is at most 1.3 times what it was before."""
    with running_server(tmp_path / "data") as server, server.client() as client:
        (worker,) = workers(server)
        small = [{"role": "user", "content": "Read the file."}]
        fields = {"session": uuid.uuid4().hex, "messages": small, "budget": 5000}
        assert client.post("/walker/render", json=fields).status_code == 200
        before = resident(worker)
        lines = "".join(f"{number}: a line of the file, item_{number}\n" for number in range(1530))
        call = {"type": "function", "function": {"name": "read", "arguments": "{}"}}
        messages: list[Json] = [*small]
        for number in range(1000):
            calls = [{**call, "id": str(number)}]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            text = f"{number} {lines}"
            messages.append({"role": "tool", "tool_call_id": str(number), "content": text})
        fields = {"session": uuid.uuid4().hex, "messages": messages, "budget": 5000}
        reply = client.post("/walker/render", json=fields, timeout=300)
        assert reply.status_code == 200
        largest = resident(worker)
        assert len(reply.request.content) > 50 * MEGABYTE
        deadline = time.monotonic() + 60
        while (memory := resident(worker)) > 1.3 * before and time.monotonic() < deadline:
            time.sleep(0.5)
        figures = f"{before / MEGABYTE:.0f}, {largest / MEGABYTE:.0f}, {memory / MEGABYTE:.0f} MB"
        assert memory <= 1.3 * before, figures
