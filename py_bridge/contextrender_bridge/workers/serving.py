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
    """One of `count` workers."""

    number: int
    count: int
    ready: int
    """A pipe to tell that it serves."""
    alive: int
    """A pipe that ends with the supervisor."""
    beats: mmap.mmap
    """A byte for each worker, in memory that all of them share."""
    may_renew: bool = True
    """Whether it may exit with RENEW."""

    def tell_ready(self) -> None:
        """This worker serves from now on."""
        os.write(self.ready, bytes([self.number]))

    def beat(self) -> None:
        """This worker is not stuck."""
        self.beats[self.number] = (self.beats[self.number] + 1) % 256


class WorkerServer(uvicorn.Server):
    """Serves until SIGTERM; without its supervisor it ends at once."""

    def __init__(
        self, config: uvicorn.Config, worker: Worker, is_open: Callable[[], bool] = lambda: True
    ) -> None:
        """An app that is not open when the server has started tells by itself when it is."""
        super().__init__(config)
        self._worker = worker
        self._is_open = is_open

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens, and beats from then on."""
        await super().startup(sockets)
        if self.started:
            asyncio.get_running_loop().add_reader(self._worker.alive, os._exit, 1)
            self._beat()
            if self._is_open():
                self._worker.tell_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A terminal interrupts every process: what a worker is to do, its supervisor says."""
        if sig != signal.SIGINT:
            super().handle_exit(sig, frame)

    def _beat(self) -> None:
        """Tells, until the process ends, that this loop goes round."""
        self._worker.beat()
        asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)
