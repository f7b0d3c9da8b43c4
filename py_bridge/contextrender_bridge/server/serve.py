"""Run the service until it is interrupted."""

import argparse
import os
import socket
from pathlib import Path

from contextrender_bridge.errors import CommandError
from contextrender_bridge.listening import listen
from contextrender_bridge.paths import app_dir, data_dir, make_private
from contextrender_bridge.server.allocator import keep_little
from contextrender_bridge.server.warming import tell_why_it_is_slow
from contextrender_bridge.setting_kinds import as_whole
from contextrender_bridge.settings import checked, current_settings, set_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender serve`."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (%(default)s)")
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"data folder ({data_dir()})")
    parser.add_argument(
        "--workers", metavar="N", help="processes behind that port (CONTEXTRENDER_WORKERS)"
    )
    parser.add_argument("--log-format", metavar="FORMAT", help="text or json (text)")
    parser.add_argument("--log-level", metavar="LEVEL", help="from debug to error (warning)")
    parser.add_argument(
        "--while-used",
        type=float,
        metavar="SECONDS",
        help="stop when for so long no `contextrender wrap` ran and no request came",
    )


def run(args: argparse.Namespace) -> int:
    """Serve as the command line says."""
    for name, text in (("log_format", args.log_format), ("log_level", args.log_level)):
        if text is not None:
            set_option(name, text)
    workers = (
        checked(as_whole, args.workers, "--workers") if args.workers else current_settings().workers
    )
    return serve(
        args.host, args.port, args.data or data_dir(), idle=args.while_used, workers=workers
    )


def serve(
    host: str,
    port: int,
    data: Path,
    app: Path | None = None,
    idle: float | None = None,
    workers: int = 1,
) -> int:
    """Listen, load the app, say when it is ready, and serve until SIGINT or SIGTERM.

    With `idle` also until it has not been used for so many seconds.
    """
    if idle is not None and workers > 1:
        raise CommandError("--while-used is for one process, not for several workers.")
    if not data.is_dir():
        make_private(data)
    keep_little()
    listener = listen(host, port)
    os.umask(0o077)
    slow = tell_why_it_is_slow()
    url = _url(host, listener)
    if workers > 1:
        from contextrender_bridge.server.together import serve_together

        return serve_together(listener, url, data, app or app_dir(), slow, workers)
    from contextrender_bridge.server.serving import serve_alone

    return serve_alone(listener, url, data, app or app_dir(), slow, idle)


def _url(host: str, listener: socket.socket) -> str:
    """Where clients on this machine reach it."""
    port = listener.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
