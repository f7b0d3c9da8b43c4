"""Servers as separate processes, started as users start them."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from contextrender_bridge.cli import main
from contextrender_bridge.client.credentials import load_credentials
from contextrender_bridge.server import build_app
from contextrender_bridge.server.process.loading import load_models

from tests.api.client import Api
from tests.server.forked import LOCK_TIMEOUT, ForkedProcess, serve_test_app
from tests.support.command import contextrender
from tests.support.waiting import wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
READY_SECONDS = 300
DATABASE = "CONTEXTRENDER_DATABASE"


def ask(
    app: Any, method: str, path: str, token: str = "", *, address: str = "127.0.0.1", **options: Any
) -> httpx.Response:
    """Send a request from this address to an app in this process."""

    async def answer() -> httpx.Response:
        transport = httpx.ASGITransport(app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{address}") as http:
            if token:
                http.headers["authorization"] = f"Bearer {token}"
            return await http.request(method, path, **options)

    return asyncio.run(answer())


@dataclass(frozen=True)
class ServiceInProcess:
    """A service in this process, with its local user's token."""

    app: Any
    token: str


@contextmanager
def in_process(data: Path) -> Iterator[ServiceInProcess]:
    """Load the service for a data folder in this process, so that tests can reach its parts."""
    app = build_app(data)
    load_models()
    with closing(app.state.service) as service:
        yield ServiceInProcess(app, service.accounts.local_token())


@dataclass
class Server:
    """A running server; `out` and `err` are its printed output."""

    process: subprocess.Popen[bytes] | ForkedProcess
    data: Path
    environment: Mapping[str, str]
    url: str = ""

    @property
    def out(self) -> str:
        return (self.data.parent / "out").read_text()

    @property
    def err(self) -> str:
        return (self.data.parent / "err").read_text()

    def client(self, token: str | None = None) -> httpx.Client:
        token = token or load_credentials(self.data).token
        return httpx.Client(
            base_url=self.url, headers={"authorization": f"Bearer {token}"}, timeout=300
        )

    @contextmanager
    def api(self, token: str | None = None) -> Iterator[Api]:
        """Open the endpoints for the user of this token, or the local user."""
        token = token or load_credentials(self.data).token
        with self.client(token) as http:
            yield Api(http, token)

    def add_user(self, name: str, *, password: str | None = None) -> str:
        more = [] if password is None else ["--password-stdin"]
        process = self.command("user", "add", name, *more, input=password or "")
        assert process.returncode == 0, process.stderr
        return process.stdout.strip()

    def command(self, *words: str, input: str = "") -> subprocess.CompletedProcess[str]:
        """Run `contextrender` with the server's data folder while the server runs."""
        return contextrender(*words, "--data", self.data, input=input, environment=self.environment)

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=300)

    def kill(self) -> None:
        """Kill the supervisor and its worker with -9, so that neither can finish anything."""
        self.process.send_signal(signal.SIGSTOP)  # it would replace the worker
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for worker in children.read_text().split():
            os.kill(int(worker), signal.SIGKILL)
        self.stop(signal.SIGKILL)


def serve_command(data: Path, *options: str) -> list[str]:
    return [str(BIN / "contextrender"), "serve", "--port", "0", "--data", str(data), *options]


def running_server(data: Path, *options: str, **environment: Any) -> AbstractContextManager[Server]:
    """Run the program `contextrender serve` for a data folder until the block ends."""
    return running(serve_command(data, *options), data, **environment)


@contextmanager
def running(
    command: list[str], data: Path, *, cwd: Path = REPOSITORY, **environment: Any
) -> Iterator[Server]:
    """Run `command` until the block ends; enter the block when the server is ready.

    The store is SQLite unless `environment` names a database.
    """
    variables = _variables(environment)
    data.parent.mkdir(parents=True, exist_ok=True)
    with (data.parent / "out").open("wb") as out, (data.parent / "err").open("wb") as err:
        process = subprocess.Popen(command, cwd=cwd, env=variables, stdout=out, stderr=err)
    with _ready(Server(process, data, variables)) as server:
        yield server


def forked_server(data: Path, *options: str, **environment: Any) -> AbstractContextManager[Server]:
    """Run `contextrender serve` in a forked process until the block ends, in a tenth of the time.

    The store is SQLite unless `environment` names a database.
    """
    words = ["serve", "--port", "0", "--data", str(data), *options]
    return _forked(partial(main, words), data, environment)


def forked_test_app(data: Path, **environment: Any) -> AbstractContextManager[Server]:
    """Serve the test app in a forked process until the block ends."""
    return _forked(partial(serve_test_app, data), data, environment)


@contextmanager
def _forked(
    work: Callable[[], int], data: Path, environment: Mapping[str, str]
) -> Iterator[Server]:
    variables = _variables(environment)
    data.parent.mkdir(parents=True, exist_ok=True)
    for name in ("out", "err"):  # those of the server before
        (data.parent / name).unlink(missing_ok=True)
        (data.parent / name).touch()
    process = ForkedProcess(work, variables, REPOSITORY, data.parent)
    with _ready(Server(process, data, variables)) as server:
        yield server


def _variables(environment: Mapping[str, Any]) -> dict[str, str]:
    return {**{key: value for key, value in os.environ.items() if key != DATABASE}, **environment}


@contextmanager
def _ready(server: Server) -> Iterator[Server]:
    """Wait until a started server is ready; end it with the block."""
    process = server.process
    try:
        wait_until(
            lambda: "ready" in server.out,
            alive=lambda: process.poll() is None,
            explain=lambda: server.err,
            seconds=READY_SECONDS,
        )
        server.url = load_credentials(server.data).url
        yield server
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def another_server(
    data: Path, environment: Mapping[str, str] = {}, *, patient: bool = True
) -> AbstractContextManager[Server]:
    """Fork another server process for a data folder and its database.

    If `patient` is false, it waits 0.1 s for the store's lock.
    """
    variables = {key: value for key, value in os.environ.items() if key == DATABASE}
    if not patient:
        variables[LOCK_TIMEOUT] = "0.1"
    return forked_server(data, **variables | dict(environment))
