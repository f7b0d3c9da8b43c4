"""A worker process: its link to the supervisor, and an HTTP server that writes heartbeats."""

import asyncio
import mmap
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

import uvicorn

BEAT_SECONDS = 1.0


@dataclass(frozen=True)
class Worker:
    """One of `count` workers, with the pipes and memory that link it to its supervisor."""

    number: int
    count: int
    ready: int
    """A pipe to which a worker writes when it serves."""
    alive: int
    """A pipe that is closed when the supervisor exits."""
    beats: mmap.mmap
    """A counter of heartbeats per worker, one byte each, in shared memory."""
    may_renew: bool = True
    """True if the worker may exit with RENEW."""

    def tell_ready(self) -> None:
        """Report to the supervisor that this worker serves, by its number in the pipe."""
        os.write(self.ready, bytes([self.number]))

    def beat(self) -> None:
        """Write a heartbeat, which shows that this worker's event loop is not blocked."""
        self.beats[self.number] = (self.beats[self.number] + 1) % 256


class WorkerServer(uvicorn.Server):
    """A server that serves until SIGTERM, and exits at once if its supervisor has exited."""

    def __init__(
        self, config: uvicorn.Config, worker: Worker, is_open: Callable[[], bool] = lambda: True
    ) -> None:
        """Create the server.

        If `is_open()` is false at startup, the server does not report that it serves. The app then
        calls `Worker.tell_ready` when it can serve.
        """
        super().__init__(config)
        self._worker = worker
        self._is_open = is_open

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, write heartbeats from then on, and exit if the supervisor exits."""
        await super().startup(sockets)
        if self.started:
            # The pipe becomes readable when the supervisor exits.
            asyncio.get_running_loop().add_reader(self._worker.alive, os._exit, 1)
            self._beat()
            if self._is_open():
                self._worker.tell_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ignore SIGINT: a terminal sends it to every process, and the supervisor decides."""
        if sig != signal.SIGINT:
            super().handle_exit(sig, frame)

    def _beat(self) -> None:
        """Write a heartbeat, and schedule the next one in the event loop."""
        self._worker.beat()
        asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)
