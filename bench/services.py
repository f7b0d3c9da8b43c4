"""The processes that benchmarks start, and what these take of the machine."""

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
        """Its process, or the workers under it, first to last."""
        return processes(self.pid)

    def cpu_seconds(self) -> float:
        """Processor time that all of them have used."""
        return sum(cpu_seconds(pid) for pid in self.processes)

    def resident_mb(self) -> float:
        """Memory of all of them; what they share is counted once."""
        return sum(_proportional_kb(pid) for pid in self.processes) / 1024


def processes(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(workers: int = 1, database: str = "", **environment: str) -> Iterator[Service]:
    """A service over an empty folder, or that database, until the block ends."""
    if database:
        environment[servers.DATABASE] = database
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        data = Path(folder) / "data"
        with servers.served(data, "--workers", str(workers), **environment) as server:
            yield Service(server.process.pid, server.url, load_credentials(data).token, data)
            server.stop(signal.SIGTERM)


@contextmanager
def inside(data: Path) -> Iterator[Any]:
    """The service's core in this process, warmed up like a server: everything but HTTP."""
    from contextrender_bridge.server import build_app
    from contextrender_bridge.server.process.loading import warm_up

    service = build_app(data).state.service
    warm_up()
    try:
        yield service
    finally:
        service.close()


@dataclass(frozen=True)
class Way:
    """A way to a model, and the processes between."""

    name: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    between: tuple[int, ...] = ()

    def cpu_seconds(self) -> float:
        """Processor time that its processes have used."""
        return sum(cpu_seconds(pid) for one in self.between for pid in processes(one))


@contextmanager
def process(command: list[str], url: str, **environment: str) -> Iterator[int]:
    """Runs a server until the block ends, from the moment it answers anything; its id."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        serving_program(command, {**os.environ, **environment}, url, Path(folder)) as running,
    ):
        yield running.pid


@contextmanager
def model() -> Iterator[str]:
    """The scripted model in a process of its own; its address, without `/v1`."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with process([sys.executable, "-m", "tests.support.scripted_model", str(port)], url):
        yield url


def _proportional_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0
