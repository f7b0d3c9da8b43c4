"""Run the proxy: agents use it as their provider's address, and it shortens their histories."""

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
    as_patterns,
    as_policy,
    as_share,
    as_whole,
)
from contextrender_bridge.base.settings import (
    ANTHROPIC,
    OPENAI,
    Settings,
    checked,
    current_settings,
)
from contextrender_bridge.body_limits import BodyLimits
from contextrender_bridge.client.credentials import FILE_NAME, LOOPBACK, load_credentials
from contextrender_bridge.listening import address, http_config, listen

if TYPE_CHECKING:
    from contextrender_bridge.asgi import App
    from contextrender_bridge.proxy.app import Trust
    from contextrender_bridge.workers.serving import Worker


_READ = {
    "budget": as_budget,
    "policy": as_policy,
    "bypass_tools": as_patterns,
    "pin_tools": as_patterns,
    "holdout": as_share,
}


WAIT_SECONDS = 300.0
LOOK_SECONDS = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender proxy`."""
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
    """Serves until it is interrupted."""
    try:
        import uvicorn  # noqa: F401
    except ImportError:
        raise CommandError(f"`contextrender proxy` needs {how_to_install('proxy')}.") from None

    from contextrender_bridge.proxy.app import trust_nobody, trust_own_programs
    from contextrender_bridge.proxy.peers import link_secret
    from contextrender_bridge.workers.supervisor import Supervisor

    given = {
        **history_options(args),
        "mode": args.mode,
        "workers": args.workers and checked(as_whole, args.workers, "--workers"),
        "upstream": _base("--upstream", args.upstream),
        "anthropic_upstream": _base("--anthropic-upstream", args.anthropic_upstream),
    }
    given = {name: value for name, value in given.items() if value is not None}
    settings = replace(current_settings(), **given)
    own = args.host in LOOPBACK
    secret = link_secret(data_dir()) if own else ""
    listener = listen(args.host, args.port)

    def app() -> App:
        return standalone_app(settings, trust_own_programs(secret) if own else trust_nobody)

    once_started(app)
    place = address(listener)
    print(
        f"ContextRender's proxy is at {place}/v1 "
        f"(to {settings.upstream} and {settings.anthropic_upstream})",
        flush=True,
    )
    if sys.stdout.isatty() and secret:
        # Not for a log: it stands for this user.
        print(f"For programs it cannot tell apart: {place}/k/{secret}/v1", flush=True)
    return Supervisor(settings.workers, partial(_work, app, listener)).run()


def standalone_app(settings: Settings, trust: Trust) -> App:
    """Return the proxy over the service that the environment or the local file names.

    Raise NoCredentials.
    """
    from contextrender_bridge.client import AsyncContextRender
    from contextrender_bridge.proxy.app import Proxy
    from contextrender_bridge.request_guards import Guard

    load_credentials()
    return Guard(Proxy(settings, AsyncContextRender(), trust, bodies=BodyLimits(settings)))


def _work(app: Callable[[], App], listener: socket.socket, worker: Worker) -> int:
    """What one worker does."""
    from contextrender_bridge.request_guards import guarded
    from contextrender_bridge.workers.serving import WorkerServer

    settings = current_settings()
    guard = guarded(settings.max_connections, settings.header_timeout)
    WorkerServer(http_config(app(), http=guard), worker).run(sockets=[listener])
    return 0


def _base(option: str, text: str | None) -> str | None:
    return text and cast(str, checked(as_base_address, text, option))


def add_history_options(parser: argparse.ArgumentParser) -> None:
    """What `proxy` and `wrap` take of how histories are shortened, by their settings' names."""
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
        "--holdout", metavar="SHARE", help="share of sessions sent whole, to compare with: 10%%"
    )


def history_options(args: argparse.Namespace) -> dict[str, Any]:
    """Those that were given, by their settings. Raises CommandError."""
    return {
        name: checked(read, text, f"--{name.replace('_', '-')}")
        for name, read in _READ.items()
        if (text := getattr(args, name)) is not None
    }


def once_started(make: Callable[[], App]) -> App:
    """The app, once there are credentials. Raises CommandError where none will come.

    A proxy that was started before the service ever was waits for that one's first start, which
    makes the token. Later it needs no service to start: while none answers, histories go through
    whole.
    """
    may_come = not current_settings().url and not (data_dir() / FILE_NAME).exists()
    try:
        return make()
    except NoCredentials as missing:
        reason = str(missing)
    if not may_come:
        raise CommandError(reason)
    print(f"contextrender: {reason} Waiting for it ...", file=sys.stderr, flush=True)
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
        with suppress(NoCredentials):
            return make()
    raise CommandError(reason)
