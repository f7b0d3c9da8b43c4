"""The service on this machine: find it, or start it, with progress lines meanwhile."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import chain, count, repeat
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from contextrender_bridge.base.errors import (
    CommandError,
    NoCredentials,
    Unreachable,
    error_of,
)
from contextrender_bridge.base.installing import how_to_serve
from contextrender_bridge.base.settings import environment_without, read_settings
from contextrender_bridge.client.credentials import (
    Credentials,
    is_local,
    load_credentials,
    resolve_credentials,
    stored_credentials,
)

ANSWER_SECONDS: Final = 1.0
CODE_SECONDS: Final = 5.0
START_SECONDS: Final = 180.0
STOP_SECONDS: Final = 15.0
FIRST_SECONDS: Final = 3.0
EVERY_SECONDS: Final = 10.0
STARTING: Final = "usually ten seconds; half a minute and more if its Jac code is not compiled yet"
"""How long the service takes to start."""
WRAP_LOG: Final = "wrap-service.log"

_NOT_ITS = ("CONTEXTRENDER_URL", "CONTEXTRENDER_TOKEN", "CONTEXTRENDER_MODEL", "CTXGRAPH_MODEL")
_SERVE = "import sys; from contextrender_bridge.cli import main; sys.exit(main())"


def answers(url: str) -> bool:
    """Return whether a service of ours answers there."""
    try:
        reply = httpx.get(f"{url}/healthz", timeout=ANSWER_SECONDS, trust_env=False)
        return bool(reply.is_success and reply.json().get("status") == "ok")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, AttributeError):
        return False


def begun(
    data: Path,
    log: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a server over `data`, on a free port of loopback, that writes to `log`."""
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
        return subprocess.Popen(
            [sys.executable, "-c", _SERVE, "serve", "--port", "0", "--data", str(data), *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
            cwd=cwd,
        )


def ready(server: subprocess.Popen[bytes], data: Path, log: Path) -> Credentials:
    """Return the credentials, once the server answers. Raise CommandError."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        with suppress(NoCredentials):
            credentials = stored_credentials(data)
            if answers(credentials.url):
                return credentials
        time.sleep(0.05)
    output = log.read_text(encoding="utf-8", errors="replace").strip()[-2000:]
    raise CommandError(f"the service did not start ({log}).\n{output}")


def find_service(data: Path, say: Callable[[str], None]) -> Credentials:
    """Return the service that all of a user's wrapped agents share.

    The environment names it, it runs over `data`, or it is started now. Raise CommandError.
    """
    try:
        credentials = load_credentials(data)
    except NoCredentials:
        credentials = None
    if credentials is not None and answers(credentials.url):
        return credentials
    if url := read_settings().url:
        raise CommandError(
            f"no service answers at {url}: start it, or unset CONTEXTRENDER_URL, and wrap "
            "starts one here."
        )
    if importlib.util.find_spec("jaclang") is None:
        raise CommandError(f"no service is running, and to start one needs {how_to_serve()}.")
    with _start_lock(data / ".starting", say):
        with suppress(NoCredentials):
            credentials = load_credentials(data)
            if answers(credentials.url):  # another wrap has just started it
                return credentials
        with telling("starting the service", say, first=0.0):
            log = data / WRAP_LOG
            linger = str(read_settings().idle_timeout)
            ready(begun(data, log, "--idle-timeout", linger, cwd=data), data, log)
            return load_credentials(data)


def revive(data: Path, url: str) -> bool:
    """Start the service over `data` again, at its address, if it has died; return whether it did.

    A service that the environment names is somebody else's. Raise CommandError if it does not
    start.
    """
    if read_settings().url or answers(url) or importlib.util.find_spec("jaclang") is None:
        return False
    with _start_lock(data / ".starting", lambda _: None):
        if answers(url):  # another wrap has just started it
            return False
        log, port = data / WRAP_LOG, str(urlsplit(url).port)
        options = "--port", port, "--idle-timeout", str(read_settings().idle_timeout)
        ready(begun(data, log, *options, cwd=data), data, log)
        return True


def sign_in_code(url: str, data: Path | None = None) -> str:
    """Return what signs this user in at the console, once and soon. Raise ContextRenderError.

    The token is that of the environment, or of the server of `data`.
    """
    # The one of the moment.
    token = stored_credentials(data).token if data else resolve_credentials(url, None).token
    headers = {"authorization": f"Bearer {token}"}
    try:
        reply = httpx.post(
            f"{url}/console/link",
            headers=headers,
            json={},
            timeout=CODE_SECONDS,
            trust_env=not is_local(url),
        )
        answer = reply.json()
    except (httpx.HTTPError, ValueError) as error:
        raise Unreachable(f"No answer from {url}: {type(error).__name__}.") from None
    if reply.is_error:
        raise error_of(reply.status_code, answer)
    return str(answer["code"])


@contextmanager
def temporary_service() -> Iterator[Credentials]:
    """Start a service over an empty data folder; stop it and remove the folder afterwards.

    It asks no model, whatever is set, so that oversized results are shown as excerpts. This needs
    no API key and has the same result every time.
    """
    environment = environment_without(*_NOT_ITS)
    with tempfile.TemporaryDirectory(prefix="contextrender-") as folder, _stopped_by_sigterm():
        data, log = Path(folder) / "data", Path(folder) / "server.log"
        server = begun(data, log, environment=environment)
        try:
            yield ready(server, data, log)
        finally:
            server.terminate()
            try:
                server.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


@contextmanager
def meanwhile(work: Callable[[], object], *seconds: float) -> Iterator[None]:
    """Do `work` in a thread while the block runs.

    `seconds` are the pauses before each time; the last one is repeated.
    """
    ended = threading.Event()

    def go_on() -> None:
        for pause in chain(seconds, repeat(seconds[-1])):
            if ended.wait(pause):
                return
            work()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def telling(
    task: str, say: Callable[[str], None], first: float = FIRST_SECONDS
) -> AbstractContextManager[None]:
    """Report that the block waits for a start (`task`) after `first` seconds, again and again."""
    since = time.monotonic()
    lines = chain(
        [f"{task} ({STARTING}) ..."],
        (f"{task}: {time.monotonic() - since:.0f} s so far ..." for _ in count()),
    )
    return meanwhile(lambda: say(next(lines)), first, EVERY_SECONDS)


def telling_why_it_is_slow() -> AbstractContextManager[None]:
    """Write to stderr what is waited for, unless the block ends within a moment."""
    return telling("Loading the service", partial(print, file=sys.stderr, flush=True))


@contextmanager
def _start_lock(lock: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Let one process at a time start a service; a killed one's lock ends with it."""
    import fcntl

    with lock.open("w") as file:
        with telling("waiting for the service that another wrap starts", say, first=1.0):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Lets SIGTERM end the command in order, so that it takes its server with it."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
