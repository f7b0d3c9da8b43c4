"""Run the proxy, which agents use as their provider's address and which renders their histories."""

from __future__ import annotations

import argparse
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from contextrender_bridge.base.errors import CommandError, NoCredentials
from contextrender_bridge.base.installing import how_to_install
from contextrender_bridge.base.paths import data_dir
from contextrender_bridge.base.setting_kinds import (
    LIVE_BUDGET,
    LIVE_POLICY,
    MODES,
    as_base_address,
    as_budget,
    as_count,
    as_patterns,
    as_policy,
    as_share,
)
from contextrender_bridge.base.settings import (
    ANTHROPIC,
    OPENAI,
    Settings,
    current_settings,
    parse_setting,
)
from contextrender_bridge.client.credentials import FILE_NAME, LOOPBACK, load_credentials
from contextrender_bridge.listening import address, http_config, listen
from contextrender_bridge.process_memory import limit_free_memory
from contextrender_bridge.request_guards import BodyLimits

if TYPE_CHECKING:
    from contextrender_bridge.asgi import App
    from contextrender_bridge.proxy.app import Trust
    from contextrender_bridge.workers.serving import Worker


_PARSERS = {
    "budget": as_budget,
    "policy": as_policy,
    "bypass_tools": as_patterns,
    "pin_tools": as_patterns,
    "holdout": as_share,
}
"""The parser of each rendering option, by the setting that the option is named after."""

WAIT_SECONDS = 300.0
CHECK_SECONDS = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender proxy`."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8700, help="port to listen on (%(default)s)")
    parser.add_argument(
        "--upstream", metavar="URL", help=f"an OpenAI-compatible provider ({OPENAI})"
    )
    parser.add_argument(
        "--anthropic-upstream", metavar="URL", help=f"an Anthropic-compatible one ({ANTHROPIC})"
    )
    add_history_options(parser)
    parser.add_argument("--mode", choices=MODES, help="what to do with histories (render)")
    parser.add_argument(
        "--workers", metavar="N", help="processes that share the port (CONTEXTRENDER_WORKERS)"
    )


def run(args: argparse.Namespace) -> int:
    """Run `contextrender proxy` until it is interrupted, and return the exit code.

    Read the options, listen, wait for the service's credentials, print the address, and supervise
    the worker processes. Raise CommandError if uvicorn is missing, an option is invalid, or no
    credentials appear.
    """
    try:
        import uvicorn  # noqa: F401
    except ImportError:
        raise CommandError(f"`contextrender proxy` needs {how_to_install('proxy')}.") from None

    from contextrender_bridge.proxy.app import trust_nobody, trust_own_programs
    from contextrender_bridge.proxy.peers import link_secret
    from contextrender_bridge.workers.supervisor import Supervisor

    # The options that are given on the command line replace the settings.
    options = {
        **history_options(args),
        "mode": args.mode,
        "workers": args.workers and parse_setting(as_count, args.workers, "--workers"),
        "upstream": _parse_address("--upstream", args.upstream),
        "anthropic_upstream": _parse_address("--anthropic-upstream", args.anthropic_upstream),
    }
    options = {name: value for name, value in options.items() if value is not None}
    settings = replace(current_settings(), **options)
    # Only programs on this machine may use the proxy's own token.
    is_local = args.host in LOOPBACK
    secret = link_secret(data_dir()) if is_local else ""
    listener = listen(args.host, args.port)

    def app() -> App:
        return standalone_app(settings, trust_own_programs(secret) if is_local else trust_nobody)

    wait_for_credentials(app)  # Fail here, before any worker starts, if there are none.
    url = address(listener)
    print(
        f"ContextRender's proxy is at {url}/v1 "
        f"(to {settings.upstream} and {settings.anthropic_upstream})",
        flush=True,
    )
    if sys.stdout.isatty() and secret:
        # The secret acts for this user, so it is written to a terminal only, never to a log.
        print(f"For programs that it cannot identify: {url}/k/{secret}/v1", flush=True)
    return Supervisor(settings.workers, partial(_serve, app, listener)).run()


def standalone_app(settings: Settings, trust: Trust) -> App:
    """Return the proxy as an app, for the service in the environment or the credentials file.

    Raise NoCredentials if neither names a service.
    """
    from contextrender_bridge.client import AsyncContextRender
    from contextrender_bridge.proxy.app import Proxy
    from contextrender_bridge.request_guards import Guard

    load_credentials()
    return Guard(Proxy(settings, AsyncContextRender(), trust, bodies=BodyLimits(settings)))


def _serve(app: Callable[[], App], listener: socket.socket, worker: Worker) -> int:
    """Serve the app in one worker process until it is stopped, and return the exit code."""
    from contextrender_bridge.request_guards import guarded_protocol
    from contextrender_bridge.workers.serving import WorkerServer

    limit_free_memory()
    settings = current_settings()
    protocol = guarded_protocol(settings.max_connections, settings.header_timeout)
    WorkerServer(http_config(app(), http=protocol), worker).run(sockets=[listener])
    return 0


def _parse_address(option: str, text: str | None) -> str | None:
    return text and cast(str, parse_setting(as_base_address, text, option))


def add_history_options(parser: argparse.ArgumentParser) -> None:
    """Add the rendering options of `proxy` and `wrap`. Each is named like its setting."""
    parser.add_argument(
        "--budget", metavar="N", help=f"tokens of history (the session's, else {LIVE_BUDGET})"
    )
    parser.add_argument(
        "--policy",
        metavar="NAME",
        help=f"which policy chooses what is shown (the session's, else {LIVE_POLICY})",
    )
    parser.add_argument(
        "--bypass-tools",
        metavar="NAMES",
        help="tools whose results are never touched: names, globs",
    )
    parser.add_argument(
        "--pin-tools", metavar="NAMES", help="tools whose results stay while there is room"
    )
    parser.add_argument(
        "--holdout", metavar="SHARE", help="share of sessions sent in full, for comparison: 10%%"
    )


def history_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the values of the rendering options on the command line, by setting.

    Raise CommandError if a value is invalid.
    """
    return {
        name: parse_setting(parse, text, f"--{name.replace('_', '-')}")
        for name, parse in _PARSERS.items()
        if (text := getattr(args, name)) is not None
    }


def wait_for_credentials(make: Callable[[], App]) -> App:
    """Return the app that `make` creates, as soon as there are credentials for the service.

    The local service writes the credentials file at its first start. If no address is set and the
    file is missing, wait for it. Raise CommandError if it is missing after `WAIT_SECONDS`, or if
    waiting cannot help. The service itself need not answer yet, because the proxy fails open.
    """
    may_be_created = not current_settings().url and not (data_dir() / FILE_NAME).exists()
    try:
        return make()
    except NoCredentials as error:
        reason = str(error)
    if not may_be_created:
        raise CommandError(reason)
    print(f"contextrender: {reason} Waiting for it ...", file=sys.stderr, flush=True)
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        time.sleep(CHECK_SECONDS)
        with suppress(NoCredentials):
            return make()
    raise CommandError(reason)
