"""Runs an agent with the proxy: finds the service, starts the proxy, and prints a report.

Long because it has all steps of a run in one place.
"""

import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from contextrender_bridge.background import run_in_background
from contextrender_bridge.base.errors import (
    CommandError,
    ContextRenderError,
    NotReady,
    Unauthorized,
)
from contextrender_bridge.base.installing import how_to_install
from contextrender_bridge.base.network_proxy import network_proxy_of
from contextrender_bridge.base.paths import data_dir, make_data_private, write_private
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client import ContextRender
from contextrender_bridge.client.async_client import AsyncContextRender
from contextrender_bridge.client.credentials import LOOPBACK, Credentials
from contextrender_bridge.leases import hold_lease
from contextrender_bridge.listening import address, http_config, listen
from contextrender_bridge.local_service import find_service, restart_dead_service, sign_in_code
from contextrender_bridge.printing import print_notice
from contextrender_bridge.process_memory import limit_free_memory
from contextrender_bridge.request_guards import BodyLimits
from contextrender_bridge.wrap.agents.base import Agent, RunRequest
from contextrender_bridge.wrap.agents.openclaw import remove_stale_files
from contextrender_bridge.wrap.child import run_child
from contextrender_bridge.wrap.closing_report import (
    DeclaredTools,
    closing_json,
    closing_line,
    declared_line,
)
from contextrender_bridge.wrap.provider_routes import ProviderRoutes
from contextrender_bridge.wrap.run_totals import TotalsCollector
from contextrender_bridge.wrap.warnings_log import warnings_in_file

START_SECONDS = 20.0
"""The time within which the proxy must start."""
REVIVE_SECONDS = 5.0
"""The time between two checks that the service still runs."""
CONNECT_SECONDS = 2.0
CHECK_SECONDS = 5.0
DEFAULT_PORTS = {"http": 80, "https": 443}
LOG = "wrap.log"


def run_with_proxy(
    agent: Agent, program: str, request: RunRequest, settings: Settings, *, as_json: bool
) -> int:
    """Run the agent behind the proxy, print a report, and return the agent's exit code.

    Find or start the service, redirect the agent to a local listener, and print notes on what is
    redirected. While the agent runs, serve the listener, write warnings to a file, and restart the
    service if it ends. Raise CommandError if the service or the listener does not start, or if the
    agent cannot be redirected.
    """
    data = make_data_private(data_dir())
    collector = TotalsCollector()
    # The lease keeps the service running, and has a folder for the files of this run.
    with hold_lease(data, os.getpid()) as folder:
        # Prepare everything: the service, the listener, and the redirected run.
        service = find_service(data, print_notice)
        check_access(service.url)
        with listen("127.0.0.1", 0) as listener:
            routes = ProviderRoutes(address(listener), serves_recall=_can_recall())
            redirect = agent.redirect(replace(request, folder=folder), routes)
            providers = redirect.expected_providers(routes)
            for note in (*redirect.notes, *silent_providers(providers)):
                print_notice(note)
            if sys.stderr.isatty():
                print_notice(_start_line(agent, providers, settings))
            app = _listener_app(agent, routes, service, settings, collector)
            # Run the agent. Its output is in the terminal, so nothing else is printed meanwhile.
            with (
                warnings_in_file(data / LOG) as log,
                run_in_background(partial(_restart_service, data, service.url), REVIVE_SECONDS),
                _serve(app, listener, settings),
                _written_files(redirect.files),
            ):
                status = run_child(
                    [program, *redirect.arguments], {**request.environment, **redirect.environment}
                )
    if log.warnings:
        print_notice(f"{log.warnings} warnings of this run were written to {data / LOG}")
    _print_closing_lines(collector, service, observing=settings.mode == "observe", as_json=as_json)
    return status


def silent_providers(upstreams: Iterable[str]) -> Iterator[str]:
    """Yield a sentence on each provider's address that accepts no connection, to warn the user.

    An address behind a network proxy is not tested, because the connection would only reach the
    proxy.
    """
    for upstream in dict.fromkeys(upstreams):
        parts = urlsplit(upstream)
        host = parts.hostname or ""
        port = parts.port or DEFAULT_PORTS[parts.scheme]
        if host not in LOOPBACK and network_proxy_of(upstream):
            continue
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            yield f"the provider's address {upstream} does not answer ({reason.lower()})."


def check_access(url: str) -> None:
    """Raise CommandError if the service refuses the token, or cannot open its store.

    Only print any other failure of a service that answers. It may end soon, and until then calls
    are forwarded unchanged.
    """
    try:
        with ContextRender(url, timeout=CHECK_SECONDS, retries=0) as client:
            client.list_sessions(limit=1)
    except (Unauthorized, NotReady) as error:
        raise CommandError(error.message) from None
    except ContextRenderError as error:
        has_answer = error.status > 0
        if has_answer:
            print_notice(error.message)


def _restart_service(data: Path, url: str) -> None:
    """Restart the service if it has died, and log a warning.

    Until it runs again, the proxy forwards the agent's calls unchanged.
    """
    try:
        if restart_dead_service(data, url):
            logging.getLogger("contextrender").warning("the service had died and was started again")
    except (CommandError, OSError) as error:
        logging.getLogger("contextrender").warning("the service did not start again (%s)", error)


def _can_recall() -> bool:
    """Return whether the recall tool can be served. If not, print how to install it."""
    try:
        import mcp.server.mcpserver  # noqa: F401
    except ImportError:
        print_notice(
            f"no recall tool: it needs the extra `mcp`. Install it with {how_to_install('mcp')}."
        )
        return False
    return True


@contextmanager
def _serve(app: Any, listener: socket.socket, settings: Settings) -> Iterator[None]:
    """Serve `app` in a thread while the block runs. Raise CommandError if it does not start."""
    from uvicorn import Server

    from contextrender_bridge.request_guards import guarded_protocol

    # Start the server in a thread, and wait until it answers.
    limit_free_memory()
    protocol = guarded_protocol(settings.max_connections, settings.header_timeout)
    server = Server(http_config(app, http=protocol, timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise CommandError("the proxy did not start.")
        time.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def _written_files(files: Mapping[Path, str]) -> Iterator[None]:
    """Write the files, and delete them when the block ends.

    First delete the files that killed runs could not delete from the same folders.
    """
    for folder in {path.parent for path in files}:
        remove_stale_files(folder)
    try:
        for path, text in files.items():
            write_private(path, text)
        yield
    finally:
        for path in files:
            path.unlink(missing_ok=True)


def _listener_app(
    agent: Agent,
    routes: ProviderRoutes,
    service: Credentials,
    settings: Settings,
    collector: TotalsCollector,
) -> Any:
    """Return the app that answers the agent's requests.

    It has one proxy for each provider of `routes`, and the recall tool if `routes` serve one. If
    `routes.agent_has_recall`, the proxies assume that the model has the recall tool. Raise
    CommandError if the extra `proxy` is not installed.
    """
    try:
        from contextrender_bridge.request_guards import Guard
    except ImportError:
        raise CommandError(
            f"wrap needs the extra `proxy`. Install it with {how_to_install('proxy')}."
        ) from None

    from contextrender_bridge.proxy.app import Proxy, trust_everybody
    from contextrender_bridge.wrap.proxy_listener import ProxyListener

    # The clients get no token. So they read the service's token again if it has changed, for
    # example because the service was restarted.
    proxies = {
        name: Proxy(
            replace(settings, upstream=upstream, anthropic_upstream=upstream),
            AsyncContextRender(service.url),
            trust_everybody,
            recalls=routes.agent_has_recall,
        )
        for name, upstream in routes.upstreams.items()
    }
    mcp = _recall_app(routes, service, collector) if routes.serves_recall else None
    bodies = BodyLimits(settings)
    return Guard(ProxyListener(routes, proxies, collector, agent.is_passed_through, bodies, mcp))


def _recall_app(routes: ProviderRoutes, service: Credentials, collector: TotalsCollector) -> Any:
    """Return the app that serves the recall tool to requests with the token of `routes`.

    The tool recalls results of the current session: that of the main agent's last call.
    """
    from contextrender_bridge.mcp_server import recall_app, require_token

    app = recall_app(AsyncContextRender(service.url), lambda: collector.session)
    return require_token(app, lambda: routes.token)


def _print_closing_lines(
    collector: TotalsCollector, service: Credentials, *, observing: bool, as_json: bool
) -> None:
    """Print the report of the run, with a link to the console: one line, or JSON.

    `observing` means that the proxy changed no prompt. At a terminal, the link of the line also
    signs in to the console.
    """
    link = f"{service.url}/console/"
    declared = DeclaredTools()
    if collector.session:
        # If the service has stopped, the report has no tools.
        with suppress(ContextRenderError), ContextRender(service.url) as client:
            declared = DeclaredTools.of_tools(client.inspect_session(collector.session)["tools"])
    if as_json:
        report = closing_json(collector.totals, declared, link)
        print(json.dumps(report), file=sys.stderr, flush=True)
        return
    if declared.never_called:
        print_notice(declared_line(declared))
    if sys.stderr.isatty():  # the code signs in once, so it is shown at a terminal, not in a log
        with suppress(ContextRenderError):  # the service may have stopped
            link += f"#code={sign_in_code(service.url)}"
    print_notice(
        closing_line(collector.totals, link, observing=observing, failure=collector.failure)
    )


def _start_line(agent: Agent, providers: Sequence[str], settings: Settings) -> str:
    """Return the sentence that is printed before the agent starts: what wrap will do.

    `providers` are the addresses of the providers that the agent is expected to call.
    """
    names = " and ".join(dict.fromkeys(providers)) or "its provider"
    if settings.mode == "observe":
        action = "no prompt is changed"
    elif isinstance(settings.budget, int):
        action = f"{settings.budget:,} tokens of history"
    else:
        action = f"budget {settings.budget}"
    return f"between {agent.program} and {names}: {action}; a report follows at the end."
