"""One wrapped run: the service found, the proxy listening, the agent run, the line at the end."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from contextrender_bridge.base.errors import CommandError, ContextRenderError
from contextrender_bridge.base.installing import how_to_install
from contextrender_bridge.base.paths import data_dir, make_data_private, write_private
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.body_limits import BodyLimits
from contextrender_bridge.client import ContextRender
from contextrender_bridge.client.async_client import AsyncContextRender
from contextrender_bridge.client.credentials import LOOPBACK, Credentials
from contextrender_bridge.leases import held
from contextrender_bridge.listening import address, http_config, listen
from contextrender_bridge.local_service import find_service, meanwhile, revive, sign_in_code
from contextrender_bridge.wrap.agents.base import Agent, RunRequest
from contextrender_bridge.wrap.agents.openclaw import sweep
from contextrender_bridge.wrap.child import run_child
from contextrender_bridge.wrap.provider_routes import ProviderRoutes
from contextrender_bridge.wrap.run_totals import (
    Declared,
    Tally,
    closing_json,
    closing_line,
    declared_line,
)

HEALTHY_SECONDS = 20.0
REVIVE_SECONDS = 5.0
CONNECT_SECONDS = 2.0
LOG = "wrap.log"
LOG_BYTES = 2**20


def run_between(
    agent: Agent, program: str, given: RunRequest, settings: Settings, *, as_json: bool
) -> int:
    """The agent's return code. Raises CommandError while nothing has been started yet."""
    data = make_data_private(data_dir())
    tally = Tally()
    with held(data, os.getpid()) as folder:
        known = find_service(data, say)
        with listen("127.0.0.1", 0) as listener:
            doors = ProviderRoutes(address(listener), recalls=_can_recall())
            made = agent.redirect(replace(given, folder=folder), doors)
            for note in (*made.notes, *silent_providers(doors.upstreams.values())):
                say(note)
            if sys.stderr.isatty():
                say(_between(agent, doors, settings))
            app = _app(agent, doors, known, settings, tally)
            with (
                _logged(data / LOG) as log,
                meanwhile(partial(_revive, data, known.url), REVIVE_SECONDS),
                _serving(app, listener),
                _written(made.files),
            ):
                status = run_child(
                    [program, *made.arguments], {**given.environment, **made.environment}
                )
    if log.warnings:
        say(f"{log.warnings} warnings of this run are in {data / LOG}")
    _close(tally, known, observing=settings.mode == "observe", as_json=as_json)
    return status


def silent_providers(upstreams: Iterable[str]) -> Iterator[str]:
    """Return a sentence for each provider's address that surely nobody answers at.

    Through a network proxy only its own connection would show it.
    """
    for upstream in dict.fromkeys(upstreams):
        parts = urlsplit(upstream)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        if getproxies() and host not in LOOPBACK:
            continue
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            yield f"the provider's address {upstream} does not answer ({reason.lower()})."


def say(text: str) -> None:
    """A line of ours to the person; standard output is the agent's."""
    print(f"contextrender: {text}", file=sys.stderr, flush=True)


class _Log(RotatingFileHandler):
    """A file for what would otherwise be written into the agent's screen."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8")
        path.chmod(0o600)
        self.warnings = 0
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, and count it."""
        self.warnings += 1
        super().emit(record)


@contextmanager
def _logged(path: Path) -> Iterator[_Log]:
    """Write warnings to a file while the agent has the screen."""
    root, handler = logging.getLogger(), _Log(path)
    handlers, root.handlers = root.handlers, [handler]
    handler.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    try:
        yield handler
    finally:
        logging.captureWarnings(False)
        root.handlers = handlers
        handler.close()


def _revive(data: Path, url: str) -> None:
    """Start the service again if it has died; the agent's calls go through unchanged meanwhile."""
    try:
        if revive(data, url):
            logging.getLogger("contextrender").warning("the service had died and was started again")
    except (CommandError, OSError) as error:
        logging.getLogger("contextrender").warning("the service did not start again (%s)", error)


def _can_recall() -> bool:
    try:
        import mcp.server.mcpserver  # noqa: F401
    except ImportError:
        say(f"no recall tool: it needs {how_to_install('mcp')}.")
        return False
    return True


@contextmanager
def _serving(app: Any, listener: socket.socket) -> Iterator[None]:
    """The app, from when it listens until the agent has ended."""
    from uvicorn import Server

    server = Server(http_config(app, timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    latest = time.monotonic() + HEALTHY_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > latest:
            raise CommandError("the proxy did not start.")
        time.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def _written(files: Mapping[Path, str]) -> Iterator[None]:
    """The run's own files, for as long as it takes; those of killed runs go now."""
    for folder in {path.parent for path in files}:
        sweep(folder)
    try:
        for path, text in files.items():
            write_private(path, text)
        yield
    finally:
        for path in files:
            path.unlink(missing_ok=True)


def _app(
    agent: Agent, doors: ProviderRoutes, known: Credentials, settings: Settings, tally: Tally
) -> Any:
    """What listens for the agent."""
    try:
        from contextrender_bridge.request_guards import Guard
    except ImportError:
        raise CommandError(f"wrap needs {how_to_install('proxy')}.") from None

    from contextrender_bridge.proxy.app import Proxy, trust_everybody
    from contextrender_bridge.wrap.proxy_listener import ProxyListener

    # Given no token, a client finds the next one when the one it has is refused.
    client = AsyncContextRender(known.url)
    proxies = {
        name: Proxy(
            replace(settings, upstream=upstream, anthropic_upstream=upstream),
            AsyncContextRender(known.url),
            trust_everybody,
            recalls=doors.offered,
        )
        for name, upstream in doors.upstreams.items()
    }
    mcp = None
    if doors.recalls:
        from contextrender_bridge.mcp_server import guarded, recall_app

        mcp = guarded(recall_app(client, lambda: tally.session), lambda: doors.token)
    return Guard(ProxyListener(doors, proxies, tally, agent.passes, BodyLimits(settings), mcp))


def _close(tally: Tally, known: Credentials, *, observing: bool, as_json: bool) -> None:
    link = f"{known.url}/console/"
    declared = Declared()
    if tally.session:
        # Where the service has gone, nothing is told.
        with suppress(ContextRenderError), ContextRender(known.url) as client:
            declared = Declared.among(client.inspect_session(tally.session)["tools"])
    if as_json:
        told = closing_json(tally.totals, declared, link)
        print(json.dumps(told), file=sys.stderr, flush=True)
        return
    if declared.never_called:
        say(declared_line(declared))
    if sys.stderr.isatty():  # it signs in, once: for the person at the terminal, not for a log
        with suppress(ContextRenderError):  # where the service has gone
            link += f"#code={sign_in_code(known.url)}"
    say(closing_line(tally.totals, link, observing=observing, failure=tally.failure))


def _between(agent: Agent, doors: ProviderRoutes, settings: Settings) -> str:
    """What stands where, for the person who sees nothing else of it until the agent ends."""
    where = " and ".join(dict.fromkeys(doors.upstreams.values())) or "its provider"
    if settings.mode == "observe":
        return f"between {agent.program} and {where}, changing nothing; the sums follow at the end."
    budget = settings.budget
    how = f"{budget:,} tokens of history" if isinstance(budget, int) else f"budget {budget}"
    return f"between {agent.program} and {where}: {how}; what it saved follows at the end."
