"""A worker: a process that serves the app under a supervisor until it is stopped or idle."""

import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from math import ceil
from pathlib import Path
from typing import Any

import uvicorn
from contextrender_bridge.background import report_slow_start, run_in_background
from contextrender_bridge.base.errors import ContextRenderError, NoCredentials, NotReady
from contextrender_bridge.base.settings import current_settings, forget_settings
from contextrender_bridge.client.credentials import Credentials, stored_credentials
from contextrender_bridge.leases import any_alive
from contextrender_bridge.listening import http_config
from contextrender_bridge.local_service import is_service_running
from contextrender_bridge.request_guards import guarded_protocol
from contextrender_bridge.runtime.caches import limit_caches
from contextrender_bridge.server.app import build_app
from contextrender_bridge.server.process.loading import has_compiled, warm_up
from contextrender_bridge.server.process.recovering import RecoveringApp
from contextrender_bridge.server.watching.logs import configure_logging, log_failure
from contextrender_bridge.workers.serving import Worker, WorkerServer
from contextrender_bridge.workers.supervisor import RENEW, STOP

IDLE_CHECK_SECONDS = 1.0
ANNOUNCE_SECONDS = 2.0


class IdleTracker:
    """An ASGI app that passes requests to another app, and measures how long that app is idle."""

    def __init__(self, app: Any, data: Path) -> None:
        """Begin to measure. Requests count as use, and so do live leases in the folder `data`."""
        self._app = app
        self._data = data
        self._running_requests = 0
        self._last_use = time.monotonic()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request to the app. Health checks do not count as use."""
        if scope["type"] != "http" or scope["path"].startswith("/healthz"):
            await self._app(scope, receive, send)
            return
        self._running_requests += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running_requests -= 1
            self._last_use = time.monotonic()

    def idle_seconds(self) -> float:
        """Return the seconds since the last use.

        They begin at 0 again during a request, and while a lease in the data folder is live.
        """
        if self._running_requests or any_alive(self._data):
            self._last_use = time.monotonic()
        return time.monotonic() - self._last_use


def run_worker(
    worker: Worker,
    listener: socket.socket,
    *,
    url: str,
    data: Path,
    app: Path,
    idle_timeout: float | None,
) -> int:
    """Serve as one worker until a signal, or until it was idle for `idle_timeout` seconds.

    Return the exit code for the supervisor. It is RENEW, without serving, if loading the app has
    compiled Jac code, because a new process needs less memory. It is STOP after serving with an
    `idle_timeout`, so that the worker is not replaced, otherwise 0.
    """
    # Build the app, and load what the first request needs.
    forget_settings()
    configure_logging()
    with report_slow_start():
        asgi = _build(worker, data, app)
        warm_up()
    if has_compiled() and worker.may_renew:
        return RENEW
    idle_tracker = IdleTracker(asgi, data)
    config = _server_config(idle_tracker, worker.count)
    # After its shutdown, uvicorn raises the signal again. Ignore it, so that a stopped server exits
    # with 0, without a traceback.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    # While the store cannot be opened, there is no app. Once there is one, `asgi` reports that.
    server = WorkerServer(config, worker, is_open=lambda: asgi.app is not None)

    def stop_when_idle() -> None:
        """Stop the server if it was idle for long enough."""
        if idle_timeout is not None and idle_tracker.idle_seconds() >= idle_timeout:
            server.should_exit = True

    # Serve. Meanwhile check whether the server is idle; the first worker announces the service.
    with ExitStack() as background:
        if idle_timeout is not None:
            interval = min(IDLE_CHECK_SECONDS, idle_timeout)
            background.enter_context(run_in_background(stop_when_idle, interval))
        if worker.number == 0:
            background.enter_context(announce_service(url, asgi.token, data))
        server.run(sockets=[listener])
    return 0 if idle_timeout is None else STOP


def _build(worker: Worker, data: Path, app: Path) -> RecoveringApp:
    """Return the app of a worker. The workers divide the memory for cached sessions."""
    is_only_worker = worker.count == 1
    if not is_only_worker:
        limit_caches(current_settings().session_cache_mb * 2**20 // worker.count)
    return RecoveringApp(
        lambda: build_app(data, app=app, is_only_worker=is_only_worker), worker.tell_ready
    )


def _server_config(app: IdleTracker, workers: int) -> uvicorn.Config:
    """Return the configuration of a worker's server. The workers divide the connections."""
    settings = current_settings()
    max_connections = ceil(settings.max_connections / workers)
    protocol = guarded_protocol(max_connections, settings.header_timeout)
    return http_config(app, http=protocol, ws="auto", date_header=True)


@contextmanager
def announce_service(url: str, token_for: Callable[[str], str], data: Path) -> Iterator[None]:
    """Keep, during the block, a server's address and token in the file that clients read.

    If the file has the address of another server that still answers, keep the file unchanged, so
    that clients do not switch servers. `token_for` gets the token in the file. It returns this
    token, or a new one if half of the lifetime is over or the token was revoked. Clients read the
    file again when their token is refused.
    """

    def write_file() -> None:
        """Write the address and token, unless another running server is in the file.

        Log a failure instead of raising it, because the next period tries again.
        """
        current = Credentials("", "")
        try:
            with suppress(NoCredentials):
                current = stored_credentials(data)
            if current.url in ("", url) or not is_service_running(current.url):
                renewed = Credentials(url, token_for(current.token))
                if renewed != current:
                    renewed.save(data)
        except NotReady:
            pass  # The server reports this itself.
        except (ContextRenderError, OSError) as failure:  # The next period tries again.
            log_failure("announcing", failure)

    write_file()
    with run_in_background(write_file, ANNOUNCE_SECONDS):
        yield
