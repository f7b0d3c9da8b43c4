"""The app served by several processes: loaded once, then forked."""

import socket
import tempfile
import threading
from contextlib import nullcontext
from functools import partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from contextrender_bridge.errors import CommandError
from contextrender_bridge.settings import current_settings, read_again, set_for_library
from contextrender_bridge.workers.seat import Seat
from contextrender_bridge.workers.supervisor import Supervisor

if TYPE_CHECKING:
    from contextrender_bridge.server.recovering import Recovering

MOST_WORKERS = 64


def serve_together(
    listener: socket.socket, url: str, data: Path, app: Path, slow: threading.Timer, count: int
) -> int:
    """Until a signal ends it; `slow` is for a start that takes long. Raises CommandError."""
    if count > MOST_WORKERS:
        raise CommandError(f"there may be up to {MOST_WORKERS} workers.")
    # Threads of a library's own would not be there after a fork.
    set_for_library("TOKENIZERS_PARALLELISM", "false")
    with tempfile.TemporaryDirectory(prefix="contextrender-figures-") as figures:
        # Its library chooses how it counts when it is imported.
        set_for_library("PROMETHEUS_MULTIPROC_DIR", figures)
        from prometheus_client.multiprocess import mark_process_dead

        from contextrender_bridge.server.runtime import load_app
        from contextrender_bridge.server.serving import say_ready, warm_up

        load_app(app)
        warm_up()
        slow.cancel()
        slow.join()
        supervisor = Supervisor(
            count,
            partial(_work, listener, url, data, app),
            ready=lambda: say_ready(url, data),
            gone=mark_process_dead,
        )
        return supervisor.run()


def _work(listener: socket.socket, url: str, data: Path, app: Path, seat: Seat) -> int:
    """What one worker does."""
    from contextrender_bridge.server.announce import announced
    from contextrender_bridge.server.app import build_app
    from contextrender_bridge.server.connections import guarded
    from contextrender_bridge.server.logs import configure_logging
    from contextrender_bridge.server.recovering import Recovering
    from contextrender_bridge.server.serving import end_in_order, http_config
    from contextrender_bridge.workers.serving import SeatedServer, handing
    from graph.runtime.caches import limit_caches

    read_again()
    configure_logging()
    settings = current_settings()
    limit_caches(settings.working_set_mb * 2**20 // seat.count)
    asgi = Recovering(lambda: build_app(data, app=app, seat=seat), seat.tell_ready)
    guard = guarded(ceil(settings.connections / seat.count), settings.head_seconds)
    config = http_config(asgi, handing(guard, seat, lambda: _count(asgi)))
    end_in_order()
    # One keeps the file by which clients find the service.
    first = nullcontext() if seat.number else announced(url, asgi.token, data)
    with first:
        SeatedServer(config, seat, lambda: asgi.app is not None).run(sockets=[listener])
    return 0


def _count(asgi: "Recovering") -> None:
    if asgi.app is not None:
        asgi.app.state.service.metrics.handed_over.inc()
