"""Gateways as programs of their own, on a port of this machine."""

import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.waiting import until

START_SECONDS = 90


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


@contextmanager
def serving_gateway(
    command: Sequence[object], environment: Mapping[str, str], probe: str, folder: Path
) -> Iterator[None]:
    """Runs a gateway from the moment `probe` answers; what it prints is in `folder`."""
    log = folder / "gateway.log"
    words = [str(word) for word in command]
    with (
        log.open("w") as output,
        subprocess.Popen(words, env=environment, stdout=output, stderr=output) as process,
    ):
        try:
            until(
                lambda: _answers(probe),
                alive=lambda: process.poll() is None,
                why=log.read_text,
                seconds=START_SECONDS,
            )
            yield
        finally:
            process.terminate()


def _answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=2).is_success
    except httpx.TransportError:
        return False
