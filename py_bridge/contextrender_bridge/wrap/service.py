"""The service that all wrapped agents of a user share: the one that runs, or one started now."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from contextrender_bridge.base.errors import CommandError, NoCredentials
from contextrender_bridge.base.installing import how_to_serve
from contextrender_bridge.base.settings import read_settings
from contextrender_bridge.client.credentials import Credentials, load_credentials
from contextrender_bridge.server_state import answers
from contextrender_bridge.waiting import STARTING, telling

START_SECONDS = 180.0
LOG = "wrap-service.log"
_SERVE = "import sys; from contextrender_bridge.cli import main; sys.exit(main())"


def find_service(data: Path, say: Callable[[str], None]) -> Credentials:
    """The service that the environment names, that runs over `data`, or that is started now.

    Raises CommandError.
    """
    try:
        known = load_credentials(data)
    except NoCredentials:
        known = None
    if known is not None and answers(known.url):
        return known
    if named := read_settings().url:
        raise CommandError(
            f"no service answers at {named}: start it, or unset CONTEXTRENDER_URL, and wrap "
            "starts one here."
        )
    if importlib.util.find_spec("jaclang") is None:
        raise CommandError(f"no service is running, and to start one needs {how_to_serve()}.")
    with _alone(data / ".starting", say):
        with suppress(NoCredentials):
            known = load_credentials(data)
            if answers(known.url):  # another wrap has just started it
                return known
        with telling("starting the service", STARTING, say, first=0.0):
            return _start(data)


def _start(data: Path) -> Credentials:
    log = data / LOG
    linger = str(read_settings().linger)
    words = ["serve", "--port", "0", "--data", str(data), "--while-used", linger]
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-c", _SERVE, *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=data,
        )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        with suppress(NoCredentials):
            known = load_credentials(data)
            if answers(known.url):
                return known
        time.sleep(0.05)
    said = log.read_text(encoding="utf-8", errors="replace").strip()[-1000:]
    raise CommandError(f"the service did not start ({log}).\n{said}")


@contextmanager
def _alone(lock: Path, say: Callable[[str], None]) -> Iterator[None]:
    """One process at a time; a killed one's lock ends with it."""
    import fcntl

    with lock.open("w") as file:
        with telling("waiting for the service that another wrap starts", STARTING, say, first=1.0):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
