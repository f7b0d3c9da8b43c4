"""A process that serves the app, under its supervisor."""

import signal
import socket
from contextlib import nullcontext
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from types import FrameType

import uvicorn
from contextrender_bridge.base.settings import current_settings, read_again
from contextrender_bridge.server.app import build_app
from contextrender_bridge.server.logs import configure_logging
from contextrender_bridge.server.process.announcing import announced
from contextrender_bridge.server.process.idle import Idle, stopped_when_idle
from contextrender_bridge.server.process.loading import telling_why_it_is_slow, warm_up
from contextrender_bridge.server.process.recovering import Recovering
from contextrender_bridge.workers.connections import guarded
from contextrender_bridge.workers.serving import Worker, WorkerServer
from contextrender_bridge.workers.supervisor import DONE

from graph.sessions.caches import limit_caches


@dataclass(frozen=True)
class Place:
    """What is served, and where; for `idle` seconds without use, if it is not for ever."""

    listener: socket.socket
    url: str
    data: Path
    app: Path
    idle: float | None = None


def work(place: Place, worker: Worker) -> int:
    """What one worker does, until a signal ends it, or it is not used any more."""
    read_again()
    configure_logging()
    with telling_why_it_is_slow():
        alone = worker.count == 1
        settings = current_settings()
        if not alone:
            limit_caches(settings.working_set_mb * 2**20 // worker.count)
        asgi = Recovering(
            lambda: build_app(place.data, app=place.app, alone=alone), worker.tell_ready
        )
        warm_up()
    used = Idle(asgi, place.data)
    connections = ceil(settings.connections / worker.count)
    config = http_config(used, connections, settings.head_seconds)
    end_in_order()
    server = WorkerServer(config, worker, lambda: asgi.app is not None)
    # One keeps the file by which clients find the service.
    first = nullcontext() if worker.number else announced(place.url, asgi.token, place.data)
    with first, stopped_when_idle(server, used, place.idle):
        server.run(sockets=[place.listener])
    return 0 if place.idle is None else DONE


def http_config(app: Recovering | Idle, connections: int, head_seconds: float) -> uvicorn.Config:
    """How uvicorn serves the app."""
    return uvicorn.Config(
        app,
        http=guarded(connections, head_seconds),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=10,
    )


def end_in_order() -> None:
    """uvicorn raises a signal again once it has shut down; by then it has done its work."""
    signal.signal(signal.SIGTERM, _ignore)
    signal.signal(signal.SIGINT, _ignore)


def _ignore(_: int, __: FrameType | None) -> None:
    """Neither a traceback nor death by signal: a stopped server exits with 0."""
