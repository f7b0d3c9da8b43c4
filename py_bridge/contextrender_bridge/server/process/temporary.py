"""A service of one's own for as long as a command runs: a real server on a free loopback port."""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import httpx
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.settings import environment_without
from contextrender_bridge.client.credentials import FILE_NAME, Credentials

START_SECONDS = 120.0
STOP_SECONDS = 15.0
_OTHER_SERVICE = ("CONTEXTRENDER_URL", "CONTEXTRENDER_TOKEN")
_COMPACTION = ("CONTEXTRENDER_MODEL", "CTXGRAPH_MODEL")
_SERVE = "import sys; from contextrender_bridge.cli import main; sys.exit(main())"


@contextmanager
def temporary_service(*, model: bool = False) -> Iterator[Credentials]:
    """Starts the service over an empty data folder; stops it and removes the folder afterwards.

    Unless it may use a `model` it compacts nothing, whatever model is set: oversized results stand
    in as excerpts, which needs no API key and gives the same every time.
    """
    left_out = {*_OTHER_SERVICE, *(() if model else _COMPACTION)}
    environment = environment_without(*left_out)
    with tempfile.TemporaryDirectory(prefix="contextrender-") as folder, _stopped_by_sigterm():
        data = Path(folder) / "data"
        log = Path(folder) / "server.log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                [sys.executable, "-c", _SERVE, "serve", "--port", "0", "--data", str(data)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
            try:
                yield _ready(server, data, log)
            finally:
                _stop(server)


def _ready(server: subprocess.Popen[bytes], data: Path, log: Path) -> Credentials:
    """The credentials, once the server answers."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        if (data / FILE_NAME).exists():
            credentials = Credentials(**json.loads((data / FILE_NAME).read_text()))
            if _answers(credentials.url):
                return credentials
        time.sleep(0.05)
    said = log.read_text(encoding="utf-8", errors="replace").strip()[-2000:]
    raise CommandError(f"the service did not start.\n{said}")


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=1.0, trust_env=False).is_success
    except httpx.TransportError:
        return False


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Lets SIGTERM end the command in order, so that it takes its server with it."""
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(number: int, _: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
