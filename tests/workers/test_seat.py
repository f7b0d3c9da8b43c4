"""Connections handed from worker to worker."""

import os
import socket
import threading

from contextrender_bridge.workers.seat import Seat

from tests.support.seated import seated

BEGUN = b"x" * 2**17


def fill(seat: Seat, to: int) -> int:
    """How many connections the box of worker `to` takes before it is full."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        taken = 0
        while seat.hand_over(to, ours.fileno(), BEGUN):
            taken += 1
    return taken


def test_a_full_box_is_not_waited_for() -> None:
    """The worker whose box it is may be filling ours."""
    filled: list[int] = []
    with seated(2) as (one, other):
        thread = threading.Thread(target=lambda: filled.append(fill(one, 1)), daemon=True)
        thread.start()
        thread.join(30)
        assert filled and filled[0]
        for _ in range(filled[0]):
            letter = other.take()
            assert letter is not None
            begun, connection = letter
            os.close(connection)
            assert begun == BEGUN
        assert other.take() is None
