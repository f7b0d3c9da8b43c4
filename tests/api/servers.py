"""Server processes for tests that need one: to kill, to restart, or to share a data folder."""

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.api.client import Api
from tests.support.waiting import until


@dataclass
class Server:
    """A server process; `out` and `err` are the files it prints to."""

    pid: int
    out: Path
    err: Path

    @property
    def url(self) -> str:
        """Where it listens, once it says so."""

        def said() -> str:
            return self.out.read_text() if self.out.exists() else ""

        until(lambda: "ready at " in said(), alive=self.alive, why=self.err.read_text)
        return said().split("ready at ")[1].split(" ")[0]

    @contextmanager
    def api(self, token: str) -> Iterator[Api]:
        """Its endpoints for the bearer of a token."""
        with httpx.Client(base_url=self.url, timeout=300) as http:
            yield Api(http, token)

    def alive(self) -> bool:
        """Whether the process is there."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Signal the process and wait for its end."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
        until(lambda: not self.alive())


class Servers:
    """Starts servers through `fork_server.py`."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self._folder = folder
        self._process = process
        self._numbers = itertools.count()

    @contextmanager
    def running(
        self,
        data: Path,
        environment: Mapping[str, str] = {},
        *,
        working_set: int | None = None,
        store_patience: float | None = None,
    ) -> Iterator[Server]:
        """A server over `data` until the block ends, if it was not stopped before."""
        name = f"server-{next(self._numbers)}"
        out, err = self._folder / f"{name}.out", self._folder / f"{name}.err"
        order = {
            "data": str(data),
            "out": str(out),
            "err": str(err),
            "environment": dict(environment),
            "working_set": working_set,
            "store_patience": store_patience,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        server = Server(int(self._process.stdout.readline()), out, err)
        try:
            yield server
        finally:
            server.stop(signal.SIGKILL)


@contextmanager
def started(folder: Path) -> Iterator[Servers]:
    """Servers whose output goes to files in `folder`."""
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("fork_server.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Servers(folder, process)
        assert process.stdin is not None
        process.stdin.close()
