"""The service on this machine: finds it or starts it, and reports progress while it waits.

Long because every start of a server, shared or temporary, and its failures are here.
"""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from contextrender_bridge.background import report_progress
from contextrender_bridge.base.errors import CommandError, NoCredentials, Unreachable, error_of
from contextrender_bridge.base.installing import how_to_serve
from contextrender_bridge.base.settings import process_environment, read_settings
from contextrender_bridge.client.connection import network_options
from contextrender_bridge.client.credentials import (
    Credentials,
    load_credentials,
    resolve_credentials,
    stored_credentials,
)

HEALTH_TIMEOUT: Final = 1.0
CODE_TIMEOUT: Final = 5.0
START_SECONDS: Final = 180.0
STOP_SECONDS: Final = 15.0
ERROR_CHARACTERS: Final = 2_000  # of the end of the server's log, in an error
WRAP_LOG: Final = "wrap-service.log"
NOT_READY: Final = "contextrender: not ready, trying on: "
"""The beginning of the line that a server prints if it cannot open its store. A reason follows."""

_UNSET_VARIABLES = (
    "CONTEXTRENDER_URL",
    "CONTEXTRENDER_TOKEN",
    "CONTEXTRENDER_MODEL",
    "CTXGRAPH_MODEL",
)
_COMMAND_LINE = "import sys; from contextrender_bridge.cli import main; sys.exit(main())"


def is_service_running(url: str) -> bool:
    """Return whether a service of ours answers at the URL."""
    try:
        reply = httpx.get(f"{url}/healthz", timeout=HEALTH_TIMEOUT, trust_env=False)
        return bool(reply.is_success and reply.json().get("status") == "ok")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, AttributeError):
        return False


def start_server(
    data: Path,
    log: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a server over the data folder `data`, and return its process without waiting.

    The server writes its output to the file `log`. It listens on a free port of loopback, unless
    the `options` of `serve` name another address. If `environment` or `cwd` is None, it has this
    process's environment or folder.
    """
    # The log is readable only for this user. The server runs in a session of its own, so that
    # Ctrl-C does not reach it.
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
        return subprocess.Popen(
            [
                sys.executable,
                "-c",
                _COMMAND_LINE,
                "serve",
                "--port",
                "0",
                "--data",
                str(data),
                *options,
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
            cwd=cwd,
        )


def wait_until_ready(server: subprocess.Popen[bytes], data: Path, log: Path) -> Credentials:
    """Return the server's credentials once it answers.

    Raise CommandError if it ends, cannot open its store, or does not answer within `START_SECONDS`.
    """
    # A started server writes its credentials, and then answers.
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        with suppress(NoCredentials):
            credentials = stored_credentials(data)
            if is_service_running(credentials.url):
                return credentials
        _, is_not_ready, reason_lines = _output(log).rpartition(NOT_READY)
        if is_not_ready:
            reason, *_ = reason_lines.split("\n")
            raise CommandError(f"the service did not start: {reason}")
        time.sleep(0.05)
    time_limit = f" within {START_SECONDS:.0f} s" if server.poll() is None else ""
    output = _output(log).strip()[-ERROR_CHARACTERS:]
    raise CommandError(f"the service did not start{time_limit}. Its output ends with:\n{output}")


def _output(log: Path) -> str:
    """Return what a server has printed so far."""
    return log.read_text(encoding="utf-8", errors="replace")


def find_service(data: Path, report: Callable[[str], None]) -> Credentials:
    """Return the credentials of the service that all of a user's wrapped agents share.

    It is the service that the environment names, or the one that runs over `data`. If neither runs,
    start one over `data`, and report the progress to `report`. Raise CommandError if the
    environment names a service that does not answer, or if the service cannot be started.
    """
    # Look for a running service.
    url = read_settings().url
    try:
        credentials = load_credentials(data)
        if is_service_running(credentials.url):
            return credentials
    except NoCredentials as error:
        if url:  # The environment names a service, but no token for it.
            raise CommandError(error.message) from None
    if url:
        raise CommandError(
            f"no service answers at {url}: start it, or unset CONTEXTRENDER_URL, and wrap "
            "starts one here."
        )
    if importlib.util.find_spec("jaclang") is None:
        raise CommandError(f"no service is running, and to start one needs {how_to_serve()}.")
    # Start one, unless another process does.
    with _start_lock(data / ".starting", report):
        with suppress(NoCredentials):
            credentials = load_credentials(data)
            if is_service_running(credentials.url):  # Another process has started it meanwhile.
                return credentials
        with report_progress("starting the service", report, first=0.0):
            server = _start_shared(data)
            try:
                wait_until_ready(server, data, data / WRAP_LOG)
            except CommandError:
                _stop(server)
                raise
            return load_credentials(data)


def restart_dead_service(data: Path, url: str) -> bool:
    """Start the service over `data` again at its address `url`, if it does not answer there.

    Return whether it was started. A service that the environment names is never started. Raise
    CommandError if the start fails.
    """
    is_named_by_environment = bool(read_settings().url)
    if is_named_by_environment or is_service_running(url):
        return False
    if importlib.util.find_spec("jaclang") is None:
        return False
    with _start_lock(data / ".starting", lambda _: None):
        if is_service_running(url):  # Another process has started it meanwhile.
            return False
        server = _start_shared(data, "--port", str(urlsplit(url).port))
        # If it cannot open its store, keep it: it tries again, so that no other start is needed.
        wait_until_ready(server, data, data / WRAP_LOG)
        return True


def _start_shared(data: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start a service that ends when no process uses it, and return its process."""
    timeout = str(read_settings().idle_timeout)
    return start_server(data, data / WRAP_LOG, "--idle-timeout", timeout, *options, cwd=data)


def _stop(server: subprocess.Popen[bytes]) -> None:
    """Stop a server, and kill it if it does not stop within `STOP_SECONDS`."""
    server.terminate()
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def sign_in_code(url: str, data: Path | None = None) -> str:
    """Return a code that signs this user in to the console of the service at `url`.

    The code is valid once and for some minutes. It is requested with the token of the server whose
    data folder is `data`. Without `data`, use the environment's or the local server's token. Raise
    ContextRenderError if there is no token, or if the service gives no code.
    """
    # Ask the service for a code.
    token = stored_credentials(data).token if data else resolve_credentials(url, None).token
    headers = {"authorization": f"Bearer {token}"}
    try:
        reply = httpx.post(
            f"{url}/console/link",
            headers=headers,
            json={},
            timeout=CODE_TIMEOUT,
            **network_options(url),
        )
    except httpx.HTTPError as error:
        raise Unreachable(f"No answer from {url}: {type(error).__name__}.") from None
    # Return the code in the reply, or raise the error that the reply describes.
    try:
        answer = reply.json()
    except ValueError:
        answer = None
    if reply.is_error or not isinstance(answer, dict) or "code" not in answer:
        raise error_of(reply.status_code, answer, url)
    return str(answer["code"])


@contextmanager
def temporary_service() -> Iterator[Credentials]:
    """Start a service over an empty data folder; stop it and remove the folder afterwards.

    It calls no model, even if the environment names one. So oversized results are shown as
    excerpts, no API key is needed, and each run has the same result.
    """
    variables = process_environment()
    environment = {name: variables[name] for name in variables if name not in _UNSET_VARIABLES}
    with tempfile.TemporaryDirectory(prefix="contextrender-") as folder, _exit_at_sigterm():
        data, log = Path(folder) / "data", Path(folder) / "server.log"
        server = start_server(data, log, environment=environment)
        try:
            yield wait_until_ready(server, data, log)
        finally:
            _stop(server)


@contextmanager
def _start_lock(lock: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock `lock` during the block, so that only one process at a time starts a service.

    `report` is called with a line while this process waits for the lock. The system releases the
    lock of a killed process.
    """
    import fcntl

    with lock.open("w") as file:
        with report_progress("waiting for the service that another wrap starts", report, first=1.0):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _exit_at_sigterm() -> Iterator[None]:
    """Let SIGTERM raise SystemExit during the block, so that `finally` blocks stop the server."""
    previous_handler = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
