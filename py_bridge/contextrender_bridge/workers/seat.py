"""A worker's place among the others: its number, and where connections are handed to it."""

from __future__ import annotations

import mmap
import os
import socket
from dataclasses import dataclass
from typing import Final

ROOM: Final = 512 * 2**10
"""Bytes that may come with one connection; asyncio reads 256 KB at a time."""


@dataclass(frozen=True)
class Seat:
    """What one of several workers holds, all of it made before any of them was started.

    The letter boxes outlive a worker: who takes its place finds what was sent meanwhile.
    """

    number: int
    letters: socket.socket
    """Connections that others hand over."""
    boxes: tuple[socket.socket, ...]
    """Where to hand a connection to each worker."""
    ready: int
    """A pipe to tell that it serves."""
    alive: int
    """A pipe that ends with the process that started the workers."""
    beats: mmap.mmap
    """A byte for each worker, in memory that all of them share."""
    places: memoryview
    """The processor each worker's threads stay on, in such memory."""

    @property
    def count(self) -> int:
        """How many workers there are."""
        return len(self.boxes)

    def hand_over(self, to: int, connection: int, begun: bytes) -> bool:
        """Gives worker `to` an open connection and what was read from it; False if it cannot.

        Never waits.
        """
        try:
            socket.send_fds(self.boxes[to], [begun], [connection])
        except OSError:  # its box is full, or too small for this much
            return False
        return True

    def take(self) -> tuple[bytes, int] | None:
        """A connection handed over and what was read from it, if there is one."""
        try:
            begun, descriptors, _, _ = socket.recv_fds(self.letters, ROOM, 1)
        except OSError:
            return None
        return (begun, descriptors[0]) if descriptors else None

    def tell_ready(self) -> None:
        """This worker serves from now on."""
        os.write(self.ready, bytes([self.number]))

    def beat(self) -> None:
        """This worker is not stuck."""
        self.beats[self.number] = (self.beats[self.number] + 1) % 256


def seats(count: int, ready: int, alive: int) -> list[Seat]:
    """One for each worker."""
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(count)]
    for box, letters in pairs:
        box.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
        # Two workers that waited for room in each other's box would wait forever. As a flag of the
        # call it would do nothing: `send_fds` leaves its flags out.
        box.setblocking(False)
        letters.setblocking(False)
    boxes = tuple(box for box, _ in pairs)
    beats = mmap.mmap(-1, count)
    places = memoryview(mmap.mmap(-1, count * 4)).cast("i")
    return [
        Seat(number, letters, boxes, ready, alive, beats, places)
        for number, (_, letters) in enumerate(pairs)
    ]
