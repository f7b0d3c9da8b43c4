"""Starts the processes that benchmarks need, and measures their processor time and memory."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contextrender_bridge import load_credentials

from tests.server import servers
from tests.support.programs import free_port, serving_program


@dataclass(frozen=True)
class Service:
    pid: int
    url: str
    token: str
    data: Path

    @property
    def processes(self) -> list[int]:
        """The ids of the process and its workers."""
        return processes(self.pid)

    def cpu_seconds(self) -> float:
        """Return the processor seconds that all processes have used."""
        return sum(cpu_seconds(pid) for pid in self.processes)

    def resident_mb(self) -> float:
        """Return the memory of all processes in MB. Shared memory is counted once."""
        return sum(_proportional_kb(pid) for pid in self.processes) / 1024


def processes(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running_service(workers: int = 1, database: str = "", **environment: str) -> Iterator[Service]:
    """Yield a service over an empty folder, or over a database, while the block runs."""
    if database:
        environment[servers.DATABASE] = database
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        data = Path(folder) / "data"
        with servers.running_server(data, "--workers", str(workers), **environment) as server:
            yield Service(server.process.pid, server.url, load_credentials(data).token, data)
            server.stop(signal.SIGTERM)


@contextmanager
def service_in_process(data: Path) -> Iterator[Any]:
    """Yield the service's core in this process, warmed up like a server but without HTTP."""
    from contextrender_bridge.server import build_app
    from contextrender_bridge.server.process.loading import warm_up

    service = build_app(data).state.service
    warm_up()
    try:
        yield service
    finally:
        service.close()


@dataclass(frozen=True)
class Route:
    """A route to a model, and the ids of the processes on it."""

    name: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    root_pids: tuple[int, ...] = ()

    def cpu_seconds(self) -> float:
        """Return the processor seconds that the route's processes have used."""
        return sum(cpu_seconds(pid) for root_pid in self.root_pids for pid in processes(root_pid))


@contextmanager
def running_process(command: list[str], url: str, **environment: str) -> Iterator[int]:
    """Run a server while the block runs, and yield its process id once it answers."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        serving_program(command, {**os.environ, **environment}, url, Path(folder)) as program,
    ):
        yield program.pid


@contextmanager
def scripted_model() -> Iterator[str]:
    """Run the scripted model in its own process, and yield its address without `/v1`."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with running_process([sys.executable, "-m", "tests.support.scripted_model", str(port)], url):
        yield url


def _proportional_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0
