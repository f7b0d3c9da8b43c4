"""A worker's side: what its supervisor gives it, and an HTTP server that reports that it lives."""

from __future__ import annotations

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
    """One of `count` workers, and how it and its supervisor notice each other."""

    number: int
    count: int
    ready: int
    """A pipe to which a worker writes when it serves."""
    alive: int
    """A pipe that is closed when the supervisor exits."""
    beats: mmap.mmap
    """A counter of heartbeats per worker, one byte each, in shared memory."""
    may_renew: bool = True
    """Whether it may exit with RENEW."""

    def tell_ready(self) -> None:
        """Tell the supervisor that this worker serves."""
        os.write(self.ready, bytes([self.number]))

    def beat(self) -> None:
        """Write a heartbeat: this worker is not stuck."""
        self.beats[self.number] = (self.beats[self.number] + 1) % 256


class WorkerServer(uvicorn.Server):
    """A server that serves until SIGTERM, and exits at once without its supervisor."""

    def __init__(
        self, config: uvicorn.Config, worker: Worker, is_open: Callable[[], bool] = lambda: True
    ) -> None:
        """Make the server.

        If `is_open()` is false at startup, the app calls `Worker.tell_ready` itself when it can
        serve.
        """
        super().__init__(config)
        self._worker = worker
        self._is_open = is_open

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and write heartbeats from then on."""
        await super().startup(sockets)
        if self.started:
            asyncio.get_running_loop().add_reader(self._worker.alive, os._exit, 1)
            self._beat()
            if self._is_open():
                self._worker.tell_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ignore interrupts: a terminal sends them to every process, and the supervisor decides."""
        if sig != signal.SIGINT:
            super().handle_exit(sig, frame)

    def _beat(self) -> None:
        """Write a heartbeat, and again after a while: the event loop is not blocked."""
        self._worker.beat()
        asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)
