"""A process that serves the app, under its supervisor, for ever or until nobody uses it."""

import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from math import ceil
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import ContextRenderError, NoCredentials, NotReady
from contextrender_bridge.base.settings import current_settings, forget_settings
from contextrender_bridge.client.credentials import Credentials, stored_credentials
from contextrender_bridge.leases import any_alive
from contextrender_bridge.listening import http_config
from contextrender_bridge.local_service import answers, meanwhile, telling_why_it_is_slow
from contextrender_bridge.request_guards import guarded
from contextrender_bridge.server.app import build_app
from contextrender_bridge.server.process.loading import has_compiled, warm_up
from contextrender_bridge.server.process.recovering import Recovering
from contextrender_bridge.server.watching.logs import configure_logging, log_failure
from contextrender_bridge.sessions.caches import limit_caches
from contextrender_bridge.workers.serving import Worker, WorkerServer
from contextrender_bridge.workers.supervisor import RENEW, STOP

LOOK_SECONDS = 1.0
ANNOUNCED_SECONDS = 2.0


class Idle:
    """An ASGI app, with the time for which nobody has used it."""

    def __init__(self, app: Any, data: Path) -> None:
        """Start counting now. A live lease in the folder `data` counts as use, as requests do."""
        self._app = app
        self._data = data
        self._running = 0
        self._last = time.monotonic()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass everything on."""
        if scope["type"] != "http" or scope["path"].startswith("/healthz"):  # to look is not to use
            await self._app(scope, receive, send)
            return
        self._running += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= 1
            self._last = time.monotonic()

    def seconds(self) -> float:
        """Return the seconds since the last request ended or the last lease was seen."""
        if self._running or any_alive(self._data):
            self._last = time.monotonic()
        return time.monotonic() - self._last


def work(
    worker: Worker, listener: socket.socket, url: str, data: Path, app: Path, idle: float | None
) -> int:
    """Serve as one worker, until a signal ends it, or it was not used for `idle` seconds.

    Return the exit code for the supervisor: RENEW, before serving, if compiling has used memory
    that a new process does without; otherwise STOP if there is `idle`, and 0 if there is none.
    """
    forget_settings()
    configure_logging()
    with telling_why_it_is_slow():
        alone = worker.count == 1
        settings = current_settings()
        if not alone:
            limit_caches(settings.session_cache_mb * 2**20 // worker.count)
        asgi = Recovering(lambda: build_app(data, app=app, alone=alone), worker.tell_ready)
        warm_up()
    if has_compiled() and worker.may_renew:
        return RENEW
    idle_app = Idle(asgi, data)
    connections = ceil(settings.max_connections / worker.count)
    guard = guarded(connections, settings.header_timeout)
    config = http_config(idle_app, http=guard, ws="auto", date_header=True)
    # uvicorn raises a signal again once it has shut down; by then it has done its work, and a
    # stopped server exits with 0: neither a traceback nor death by signal.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    server = WorkerServer(config, worker, lambda: asgi.app is not None)

    def stop_when_idle() -> None:
        if idle is not None and idle_app.seconds() >= idle:
            server.should_exit = True

    with ExitStack() as beside:
        if idle is not None:
            beside.enter_context(meanwhile(stop_when_idle, min(LOOK_SECONDS, idle)))
        if worker.number == 0:
            beside.enter_context(announced(url, asgi.token, data))
        server.run(sockets=[listener])
    return 0 if idle is None else STOP


@contextmanager
def announced(url: str, token_for: Callable[[str], str], data: Path) -> Iterator[None]:
    """Keep the file by which clients find the service naming a server that answers.

    It names this server unless another one answers, so that no client moves to a second one.

    It also keeps the file's token valid: once half its time is over, or it was revoked, the file
    has another, which clients read when theirs is refused. `token_for` is given the file's
    token, and gives it back or a new one.
    """

    def claim() -> None:
        current = Credentials("", "")
        try:
            with suppress(NoCredentials):
                current = stored_credentials(data)
            if current.url in ("", url) or not answers(current.url):
                renewed = Credentials(url, token_for(current.token))
                if renewed != current:
                    renewed.save(data)
        except NotReady:
            pass  # the server says so itself, and why
        except (ContextRenderError, OSError) as failure:  # the next look may do
            log_failure("announcing", failure)

    claim()
    with meanwhile(claim, ANNOUNCED_SECONDS):
        yield
