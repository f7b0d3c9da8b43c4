"""Run the service until it is interrupted."""

import argparse
import gc
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from types import FrameType

from contextrender_bridge.errors import CommandError
from contextrender_bridge.paths import data_dir, make_private
from contextrender_bridge.settings import current_settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender serve`."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on (%(default)s)")
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"data folder ({data_dir()})")
    parser.add_argument(
        "--while-used",
        type=float,
        metavar="SECONDS",
        help="stop when for so long no `contextrender wrap` ran and no request came",
    )


def run(args: argparse.Namespace) -> int:
    """Serve as the command line says."""
    return serve(args.host, args.port, args.data or data_dir(), idle=args.while_used)


def serve(
    host: str, port: int, data: Path, app: Path | None = None, idle: float | None = None
) -> int:
    """Listen, load the app, say when it is ready, and serve until SIGINT or SIGTERM.

    With `idle` also until it has not been used for so many seconds.
    """
    if not data.is_dir():
        make_private(data)
    listener = _listen(host, port)
    os.umask(0o077)
    slow = threading.Timer(3.0, _say_why_it_takes_long)
    slow.daemon = True
    slow.start()

    import uvicorn

    from contextrender_bridge.client.credentials import stored_credentials
    from contextrender_bridge.server.announce import announced
    from contextrender_bridge.server.app import build_app
    from contextrender_bridge.server.connections import guarded
    from contextrender_bridge.server.console import console_link
    from contextrender_bridge.server.idle import Idle, stopped_when_idle
    from contextrender_bridge.server.logs import configure_logging
    from contextrender_bridge.server.recovering import Recovering

    configure_logging()
    settings = current_settings()
    url = _url(host, listener)

    def say_ready() -> None:
        print(f"ContextRender is ready at {url} (data in {data.resolve()})", flush=True)
        # It carries the token, so it is for the person at the terminal, not for a log.
        if sys.stdout.isatty():
            print(f"Console: {console_link(url, stored_credentials(data).token)}", flush=True)

    asgi = Recovering(lambda: build_app(data, app=app), say_ready)
    warm_up()
    slow.cancel()

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started and asgi.app is not None:
                say_ready()

    use = Idle(asgi, data)
    config = uvicorn.Config(
        use,
        http=guarded(settings.connections, settings.head_seconds),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=10,
    )
    # uvicorn raises the signal again once it has shut down; by then it has done its work.
    signal.signal(signal.SIGTERM, _ignore)
    signal.signal(signal.SIGINT, _ignore)
    server = Announcing(config)
    with announced(url, asgi.token, data), stopped_when_idle(server, use, idle):
        server.run(sockets=[listener])
    return 0


def warm_up() -> None:
    """Load what the first request would wait for, and leave it all out of garbage collection.

    A collection that looks through the runtime's 90,000 objects stops every request for 20 ms.
    """
    from engine.models.embeddings import load_embedder
    from engine.models.providers import check_model
    from engine.text.tokens import counter_for

    counter_for(None).text("")
    settings = current_settings()
    for name, model in (("EMBED_MODEL", settings.embed_model), ("MODEL", settings.model)):
        if model and model not in ("wordllama", "none"):
            check_model(f"CONTEXTRENDER_{name}", model)
    embedder = load_embedder(settings.embed_model)
    if embedder.name == "wordllama":  # others ask a provider
        embedder.embed([""])
    gc.collect()
    gc.freeze()


def _listen(host: str, port: int) -> socket.socket:
    """The listening socket, taken before the slow part so that a second server fails at once."""
    if not 0 <= port < 2**16:
        raise CommandError(f"cannot listen on port {port}: ports go up to 65535.")
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(512)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(f"cannot listen on {host} port {port}: {reason}.") from None
    return listener


def _url(host: str, listener: socket.socket) -> str:
    """Where clients on this machine reach it."""
    port = listener.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def _say_why_it_takes_long() -> None:
    print("Loading the Jac runtime; the first start compiles it.", file=sys.stderr, flush=True)


def _ignore(_: int, __: FrameType | None) -> None:
    """Neither a traceback nor death by signal: a stopped server exits with 0."""
