"""Servers as separate programs, on a port of this machine."""

import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.waiting import wait_until

START_SECONDS = 180


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


@contextmanager
def serving_program(
    command: Sequence[object], environment: Mapping[str, str], probe: str, folder: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a server; enter the block once `probe` answers. Its output is in printed.log in
    `folder`."""
    log = folder / "printed.log"
    words = [str(word) for word in command]
    with (
        log.open("w") as output,
        subprocess.Popen(words, env=environment, stdout=output, stderr=output) as process,
    ):
        try:
            wait_until(
                lambda: answers(probe),
                alive=lambda: process.poll() is None,
                explain=log.read_text,
                seconds=START_SECONDS,
            )
            yield process
        finally:
            process.terminate()


def answers(address: str) -> bool:
    try:
        return not httpx.get(address, timeout=2, trust_env=False).is_server_error
    except httpx.TransportError:
        return False
