"""Memory of a service after its first start, and after a large request."""

import uuid
from pathlib import Path

import pytest

from tests.server.servers import running_server
from tests.support.process_memory import MEGABYTE, check_release, children, large_history, resident

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say"),
]


def test_first_start_unloads_compiler(tmp_path: Path) -> None:
    with running_server(tmp_path / "data", XDG_CACHE_HOME=str(tmp_path / "cache")) as server:
        (worker,) = children(server.process.pid)
        assert list((tmp_path / "cache").rglob("*.jir")), "it has compiled"
        assert "llvmlite" not in Path(f"/proc/{worker}/maps").read_text()
        assert "numpy" not in Path(f"/proc/{server.process.pid}/maps").read_text()
        memory = resident(worker) + resident(server.process.pid)
        assert memory < 300 * MEGABYTE, memory / MEGABYTE


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
